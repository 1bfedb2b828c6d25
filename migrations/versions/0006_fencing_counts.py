"""How often each cause was told of a cluster: a counter that only grows, while the events themselves go with time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fencing_counts",
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("told", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kafka_cluster_id", "cause", name=op.f("pk_fencing_counts")),
    )
    # What is kept by then was told once, at least.
    op.execute(
        "INSERT INTO fencing_counts SELECT kafka_cluster_id, cause, count(*) FROM fencing_events "
        "GROUP BY kafka_cluster_id, cause"
    )


def downgrade() -> None:
    op.drop_table("fencing_counts")
