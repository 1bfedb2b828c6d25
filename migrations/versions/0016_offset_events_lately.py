"""What was told lately of one attempt and partition is found without reading all that is kept of it.

The index that goes served nothing: what is removed with time is looked for by more than its age, in the whole table.
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0017"
branch_labels = None
depends_on = None

_LATELY = ["run_id", "ordinal", "task", "lease", "attempt", "topic", "partition", "last_at"]


def upgrade() -> None:
    op.create_index("ix_offset_events_lately", "offset_events", _LATELY)
    op.drop_index("ix_offset_events_last_at", table_name="offset_events")


def downgrade() -> None:
    op.create_index("ix_offset_events_last_at", "offset_events", ["last_at"])
    op.drop_index("ix_offset_events_lately", table_name="offset_events")
