"""Series as `<rate-chart>` takes them: one row of seconds, then one row of values for each line."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.domain.journals.transaction_pace import PaceSample
from app.domain.runs.series import RunSample

_LINES = (
    {"label": "in", "colour": "--chart-in"},
    {"label": "out", "colour": "--chart-out"},
    # Not on the scale of records: a mark where there were any.
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)


_PACE_LINES = (
    {"label": "commits/s", "colour": "--chart-out"},
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)
_OPEN_LINES = ({"label": "open", "colour": "--chart-in"},)
_AGE_LINES = ({"label": "oldest, in s", "colour": "--warn"},)


def pace_chart_of(samples: Sequence[PaceSample]) -> str:
    """Commits a second, and when there were aborts."""
    data = [
        [sample.second for sample in samples],
        [sample.commits for sample in samples],
        [sample.aborts for sample in samples],
    ]
    return orjson.dumps({"lines": _PACE_LINES, "data": data}).decode()


def open_chart_of(samples: Sequence[PaceSample]) -> str:
    """How many transactions were open at the end of each second."""
    data = [[sample.second for sample in samples], [sample.open for sample in samples]]
    return orjson.dumps({"lines": _OPEN_LINES, "data": data, "unit": ""}).decode()


def age_chart_of(samples: Sequence[PaceSample]) -> str:
    """How long the oldest open transaction had been open at the end of each second."""
    data = [[sample.second for sample in samples], [round(sample.oldest_ms / 1000, 1) for sample in samples]]
    return orjson.dumps({"lines": _AGE_LINES, "data": data, "unit": " s"}).decode()


def chart_of(samples: Sequence[RunSample]) -> str:
    """The JSON of a chart. Seconds without a sample stay empty: a gap is seen as a gap."""
    data = [
        [int(sample.at.timestamp()) for sample in samples],
        [round(sample.records_in_per_s, 1) for sample in samples],
        [round(sample.records_out_per_s, 1) for sample in samples],
        [round(sample.aborts_per_s, 1) for sample in samples],
    ]
    return orjson.dumps({"lines": _LINES, "data": data}).decode()
