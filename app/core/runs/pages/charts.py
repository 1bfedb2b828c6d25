"""The chart of a run, as `<rate-chart>` takes it: one row of seconds, then one row of values for each line."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.core.runs.series import RunSample

_LINES = (
    {"label": "in", "colour": "--chart-in"},
    {"label": "out", "colour": "--chart-out"},
    # Not on the scale of records: a mark where there were any.
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)


def chart_of(samples: Sequence[RunSample]) -> str:
    """Return the JSON of a chart. Seconds without a sample stay empty, so that a gap is visible."""
    data = [
        [int(sample.at.timestamp()) for sample in samples],
        [round(sample.records_in_per_s, 1) for sample in samples],
        [round(sample.records_out_per_s, 1) for sample in samples],
        [round(sample.aborts_per_s, 1) for sample in samples],
    ]
    return orjson.dumps({"lines": _LINES, "data": data}).decode()
