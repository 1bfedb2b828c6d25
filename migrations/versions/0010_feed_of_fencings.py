"""The feed of fencings without a walk through what is none: restarts are told too, and are a thousand times as many."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_fencing_events_is_fencing", "fencing_events", ["at", "id"], postgresql_where=sa.text("is_fencing")
    )


def downgrade() -> None:
    op.drop_index("ix_fencing_events_is_fencing", table_name="fencing_events")
