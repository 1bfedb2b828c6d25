"""A fencing event may be the work of a query's newer driver, or of a newer attempt of its writer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

NAME = "ck_fencing_events_cause"
BEFORE = (
    "application_returned",
    "clean_restart",
    "coordinator_abort",
    "dead_task",
    "epochs_used_up",
    "hanging_ended",
    "operator_abort",
    "operator_fence",
    "own_abort",
    "own_epoch",
    "stale_generation",
    "stale_member_epoch",
    "takeover",
    "timeout",
    "unexplained",
    "zombie_refused",
)
NEW = ("newer_attempt", "newer_driver")


def may_be(causes: tuple[str, ...]) -> None:
    quoted = ", ".join(f"'{cause}'" for cause in sorted(causes))
    op.drop_constraint(op.f(NAME), "fencing_events", type_="check")
    op.create_check_constraint(op.f(NAME), "fencing_events", sa.text(f"cause IN ({quoted})"))


def upgrade() -> None:
    may_be((*BEFORE, *NEW))


def downgrade() -> None:
    # The version before cannot read them, wherever else the word stands.
    for cause in NEW:
        op.execute(sa.text("DELETE FROM fencing_events WHERE cause = :cause").bindparams(cause=cause))
        op.execute(sa.text("DELETE FROM fencing_counts WHERE cause = :cause").bindparams(cause=cause))
    may_be(BEFORE)
