"""When the reconciler sent an instance's driver SIGTERM and SIGKILL, so that each is sent and told once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = ("drain_signalled_at", "killed_at")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("instances", sa.Column(name, sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("instances", name)
