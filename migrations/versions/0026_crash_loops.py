"""How often an instance has failed in a row, and how many of its tasks do.

A server of the release before writes neither: what it leases begins to count at 0.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("failures", "tasks_crashing"):
        op.add_column(
            "instances", sa.Column(name, sa.Integer(), server_default="0", autoincrement=False, nullable=False)
        )


def downgrade() -> None:
    for name in ("tasks_crashing", "failures"):
        op.drop_column("instances", name)
