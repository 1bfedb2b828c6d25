"""The colours of phases and freshness."""

from __future__ import annotations

from app.core.observing.snapshot import Phase
from app.core.observing.wording import Quality

TONES: tuple[tuple[str, str], ...] = (
    (Quality.LIVE, "good"),
    (Quality.PARTIAL, "busy"),
    (Quality.STALE, "warn"),
    (Quality.NOTHING, "idle"),
    (Phase.OFF, "idle"),
    (Phase.CONNECTING, "busy"),
    (Phase.ABSENT, "idle"),
    (Phase.REFUSED, "bad"),
    (Phase.CATCHING_UP, "busy"),
    (Phase.LIVE, "good"),
    (Phase.LOST, "bad"),
)
