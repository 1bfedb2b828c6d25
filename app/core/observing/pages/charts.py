"""The charts of transactions.

No second is missing, so only the first one is sent: a frame has several charts, many times a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.core.journals.transaction_pace import PaceSample

_PACE_LINES = (
    {"label": "commits/s", "colour": "--chart-out"},
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)
_OPEN_LINES = ({"label": "open", "colour": "--chart-in"},)
_AGE_LINES = ({"label": "oldest, in s", "colour": "--warn"},)


def pace_chart_of(samples: Sequence[PaceSample]) -> str:
    """Commits a second, and the seconds with aborts."""
    return _by_second(
        _PACE_LINES, samples, [sample.commits for sample in samples], [sample.aborts for sample in samples]
    )


def open_chart_of(samples: Sequence[PaceSample]) -> str:
    """The number of open transactions at the end of each second."""
    return _by_second(_OPEN_LINES, samples, [sample.open for sample in samples], unit="")


def age_chart_of(samples: Sequence[PaceSample]) -> str:
    """The age of the oldest open transaction at the end of each second."""
    return _by_second(_AGE_LINES, samples, [round(sample.oldest_ms / 1000, 1) for sample in samples], unit=" s")


def _by_second(
    lines: Sequence[object], samples: Sequence[PaceSample], *values: Sequence[float], unit: str = "/s"
) -> str:
    """Draw consecutive samples, one a second."""
    first_s = samples[0].second if samples else 0
    return orjson.dumps({"lines": lines, "first_s": first_s, "data": values, "unit": unit}).decode()
