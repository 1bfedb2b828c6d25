"""Series as `<rate-chart>` takes them: one row of seconds, then one row of values for each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson

from app.domain.series import RunSample

_LINES = (
    {"label": "in", "colour": "--chart-in"},
    {"label": "out", "colour": "--chart-out"},
    # Not on the scale of records: a mark where there were any.
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)


def chart_of(samples: Sequence[RunSample]) -> str:
    """The JSON of one run's chart. Seconds without a sample stay empty: a gap is seen as a gap."""
    return _chart((int(sample.at.timestamp()), sample) for sample in samples)


def chart_of_all(series: Iterable[Sequence[RunSample]]) -> str:
    """The JSON of several runs' chart, summed second by second."""
    return _chart((int(sample.at.timestamp()), sample) for samples in series for sample in samples)


def _chart(points: Iterable[tuple[int, RunSample]]) -> str:
    sums: dict[int, list[float]] = {}
    for second, sample in points:
        row = sums.setdefault(second, [0.0, 0.0, 0.0])
        row[0] += sample.records_in_per_s
        row[1] += sample.records_out_per_s
        row[2] += sample.aborts_per_s
    seconds = sorted(sums)
    values = [[round(sums[second][line], 1) for second in seconds] for line in range(len(_LINES))]
    return orjson.dumps({"lines": _LINES, "data": [seconds, *values]}).decode()
