"""The duration of the last commits."""

from __future__ import annotations

from collections import deque

_KEPT = 512


class LatencyWindow:
    """The latest durations, and their quantiles by the nearest rank."""

    def __init__(self) -> None:
        self._durations_ms: deque[float] = deque(maxlen=_KEPT)

    def add(self, duration_s: float) -> None:
        self._durations_ms.append(duration_s * 1000)

    def quantile_ms(self, fraction: float) -> float | None:
        """None before the first measurement."""
        if not self._durations_ms:
            return None
        ranked = sorted(self._durations_ms)
        return round(ranked[min(len(ranked) - 1, int(fraction * len(ranked)))], 3)
