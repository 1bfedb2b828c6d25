"""The colours of the causes."""

from __future__ import annotations

from app.core.fencing.fencing_event import FencingCause

TONES: tuple[tuple[str, str], ...] = (
    (FencingCause.TAKEOVER, "warn"),
    (FencingCause.APPLICATION_RETURNED, "warn"),
    (FencingCause.NEWER_DRIVER, "warn"),
    (FencingCause.NEWER_ATTEMPT, "warn"),
    (FencingCause.TIMEOUT, "bad"),
    (FencingCause.OPERATOR_FENCE, "busy"),
    (FencingCause.DEAD_TASK, "busy"),
    (FencingCause.COORDINATOR_ABORT, "warn"),
    (FencingCause.ZOMBIE_REFUSED, "warn"),
    (FencingCause.UNEXPLAINED, "bad"),
    (FencingCause.STALE_GENERATION, "warn"),
    (FencingCause.STALE_MEMBER_EPOCH, "warn"),
    (FencingCause.OPERATOR_ABORT, "bad"),
    (FencingCause.HANGING_ENDED, "busy"),
    (FencingCause.CLEAN_RESTART, "idle"),
    (FencingCause.OWN_ABORT, "idle"),
    (FencingCause.OWN_EPOCH, "idle"),
    (FencingCause.EPOCHS_USED_UP, "idle"),
)
