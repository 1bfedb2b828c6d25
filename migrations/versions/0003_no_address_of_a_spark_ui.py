"""The address of an instance's Spark UI goes: the UI is off, so it never was one."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # IF EXISTS: for a while the first migration was without the column, and so are databases that were made then.
    op.execute("ALTER TABLE instances DROP COLUMN IF EXISTS web_ui_url")


def downgrade() -> None:
    op.execute("ALTER TABLE instances ADD COLUMN web_ui_url text")
