"""The colours of phases and freshness."""

from __future__ import annotations

from app.core.observing.snapshot import ReadingPhase
from app.core.observing.wording import Quality

TONES: tuple[tuple[str, str], ...] = (
    (Quality.LIVE, "good"),
    (Quality.PARTIAL, "busy"),
    (Quality.STALE, "warn"),
    (Quality.NOTHING, "idle"),
    (ReadingPhase.OFF, "idle"),
    (ReadingPhase.CONNECTING, "busy"),
    (ReadingPhase.ABSENT, "idle"),
    (ReadingPhase.REFUSED, "bad"),
    (ReadingPhase.CATCHING_UP, "busy"),
    (ReadingPhase.LIVE, "good"),
    (ReadingPhase.LOST, "bad"),
)
