"""What a session began with, and when it was last used.

A server of the release before writes none of it: its sessions began with "a one-time link", or with their token.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("one_time_links", sa.Column("created_by", sa.Text(), nullable=True))
    for name in ("last_used_at", "link_created_at"):
        op.add_column("sessions", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    op.add_column("sessions", sa.Column("link_created_by", sa.Text(), nullable=True))


def downgrade() -> None:
    for name in ("link_created_by", "link_created_at", "last_used_at"):
        op.drop_column("sessions", name)
    op.drop_column("one_time_links", "created_by")
