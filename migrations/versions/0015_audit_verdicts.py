"""An audit's verdict beside its result, so that those that proved something wrong are found without reading results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

# As app/products/audits/result.py judged when this was written; of the others nothing is asked.
BACKFILL = """
    UPDATE audits SET verdict = 'broken'
    WHERE state = 'done' AND (
        CAST(result #>> '{counts,lost,ids}' AS bigint) > 0
        OR CAST(result #>> '{counts,duplicated,ids}' AS bigint) > 0
        OR CAST(result #>> '{counts,unexpected,ids}' AS bigint) > 0
    )
"""


def upgrade() -> None:
    op.add_column("audits", sa.Column("verdict", sa.Text(), nullable=True))
    op.execute(sa.text(BACKFILL))
    op.create_index(
        "ix_audits_broken", "audits", ["ended_at", "pipeline_id"], postgresql_where=sa.text("verdict = 'broken'")
    )


def downgrade() -> None:
    op.drop_index("ix_audits_broken", table_name="audits")
    op.drop_column("audits", "verdict")
