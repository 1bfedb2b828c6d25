"""What attempts of tasks did outlives their rows, which go a month after another attempt has followed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COUNTED = (
    "records_in",
    "records_out",
    "records_skipped",
    "records_dead_lettered",
    "transactions_committed",
    "transactions_aborted",
    "transactions_unknown",
    "fencings",
)


def upgrade() -> None:
    op.create_table(
        "expired_totals",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in COUNTED),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_expired_totals_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_expired_totals")),
    )


def downgrade() -> None:
    op.drop_table("expired_totals")
