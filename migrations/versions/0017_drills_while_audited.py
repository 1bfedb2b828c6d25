"""A drill whose time is only audited any more keeps no other one waiting.

A server of the release before, while both run, looks after open drills only while there is one: with two it says so in
its log and leaves them to the newer one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_drills_open", "drills", ["ordered_at"], postgresql_where=sa.text("ended_at IS NULL"))
    op.create_index(
        "uq_drills_disturbing",
        "drills",
        [sa.text("(ended_at IS NULL)")],
        unique=True,
        postgresql_where=sa.text("state IN ('ordered', 'recovering', 'underway')"),
    )
    op.drop_index("uq_drills_open", "drills")


def downgrade() -> None:
    # The release before can have one that is open: those that are audited end there, unaudited, as it ends them itself
    # when their audit is gone.
    op.execute(
        """
        UPDATE drills SET state = 'ended', verdict = 'not_audited', ended_at = now(),
            drill = drill || jsonb_build_object('state', 'ended', 'verdict', 'not_audited', 'ended_at', now(),
                'no_audit', 'the database was migrated down', 'sentence', 'not audited: the database was migrated down')
        WHERE ended_at IS NULL AND state = 'auditing'
        """
    )
    op.create_index(
        "uq_drills_open",
        "drills",
        [sa.text("(ended_at IS NULL)")],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.drop_index("uq_drills_disturbing", "drills")
    op.drop_index("ix_drills_open", "drills")
