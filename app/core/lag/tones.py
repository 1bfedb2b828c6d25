"""The colours of lag's states."""

from __future__ import annotations

from app.core.lag.movement import LagState

TONES: tuple[tuple[str, str], ...] = (
    (LagState.HEALTHY, "good"),
    (LagState.SLOW, "warn"),
    (LagState.BLOCKED, "bad"),
    (LagState.PAUSED, "idle"),
    (LagState.NO_MEMBERS, "idle"),
    (LagState.NOT_READING, "bad"),
    (LagState.UNKNOWN, "idle"),
)
