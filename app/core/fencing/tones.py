"""The colours of the causes."""

from __future__ import annotations

from app.core.fencing.fencing_event import Cause

TONES: tuple[tuple[str, str], ...] = (
    (Cause.TAKEOVER, "warn"),
    (Cause.APPLICATION_RETURNED, "warn"),
    (Cause.TIMEOUT, "bad"),
    (Cause.OPERATOR_FENCE, "busy"),
    (Cause.DEAD_TASK, "busy"),
    (Cause.COORDINATOR_ABORT, "warn"),
    (Cause.ZOMBIE_REFUSED, "warn"),
    (Cause.UNEXPLAINED, "bad"),
    (Cause.STALE_GENERATION, "warn"),
    (Cause.STALE_MEMBER_EPOCH, "warn"),
    (Cause.OPERATOR_ABORT, "bad"),
    (Cause.HANGING_ENDED, "busy"),
    (Cause.CLEAN_RESTART, "idle"),
    (Cause.OWN_ABORT, "idle"),
    (Cause.OWN_EPOCH, "idle"),
    (Cause.EPOCHS_USED_UP, "idle"),
)
