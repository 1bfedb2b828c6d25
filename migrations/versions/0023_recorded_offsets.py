"""The last confirmed offset of each partition, a row each.

A server of the release before writes none: what it was told last stands, and the next start reports an offset that is
further as one of a task that died.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "recorded_offsets",
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("topic_id", sa.Text(), nullable=True),
        sa.Column("is_final", sa.Boolean(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_recorded_offsets_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("kafka_cluster_id", "group_id", "topic", "partition", name=op.f("pk_recorded_offsets")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index(op.f("ix_recorded_offsets_pipeline_id"), "recorded_offsets", ["pipeline_id"])


def downgrade() -> None:
    op.drop_table("recorded_offsets")
