"""Series as `<rate-chart>` takes them: one row of seconds, then one row of values for each line.

Where no second is missing, the first stands for all of them: a frame carries several charts, many times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from app.domain.audits.audit import Audit
from app.domain.audits.result import AuditCounts
from app.domain.files.totals import NOTHING, HourTotal, Total
from app.domain.journals.transaction_pace import PaceSample
from app.domain.runs.series import RunSample
from app.domain.transactions.id_registry import IdCount

_LINES = (
    {"label": "in", "colour": "--chart-in"},
    {"label": "out", "colour": "--chart-out"},
    # Not on the scale of records: a mark where there were any.
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)


_AUDIT_LINES = (
    {"label": "expected", "colour": "--chart-in"},
    # Not on the scale of outputs: a mark where something was proven wrong.
    {"label": "wrong", "colour": "--chart-abort", "is_mark": True},
)
_PACE_LINES = (
    {"label": "commits/s", "colour": "--chart-out"},
    {"label": "aborts", "colour": "--chart-abort", "is_mark": True},
)
_ID_LINES = ({"label": "all", "colour": "--chart-in"}, {"label": "ours", "colour": "--chart-out"})
_OPEN_LINES = ({"label": "open", "colour": "--chart-in"},)
_AGE_LINES = ({"label": "oldest, in s", "colour": "--warn"},)


def pace_chart_of(samples: Sequence[PaceSample]) -> str:
    """Commits a second, and when there were aborts."""
    return _by_second(
        _PACE_LINES, samples, [sample.commits for sample in samples], [sample.aborts for sample in samples]
    )


def open_chart_of(samples: Sequence[PaceSample]) -> str:
    """How many transactions were open at the end of each second."""
    return _by_second(_OPEN_LINES, samples, [sample.open for sample in samples], unit="")


def age_chart_of(samples: Sequence[PaceSample]) -> str:
    """How long the oldest open transaction had been open at the end of each second."""
    return _by_second(_AGE_LINES, samples, [round(sample.oldest_ms / 1000, 1) for sample in samples], unit=" s")


def _by_second(
    lines: Sequence[object], samples: Sequence[PaceSample], *values: Sequence[float], unit: str = "/s"
) -> str:
    """Of samples that follow each other second by second."""
    first_s = samples[0].second if samples else 0
    return orjson.dumps({"lines": lines, "first_s": first_s, "data": values, "unit": unit}).decode()


def file_records_chart_of(hours: Sequence[HourTotal]) -> str | None:
    """Records that were written into files in each hour; None: there are fewer than two hours to draw."""
    return _by_hour(hours, "records", lambda total: total.records, unit="")


def file_sizes_chart_of(hours: Sequence[HourTotal]) -> str | None:
    """Megabytes of files in each hour; None as above."""
    return _by_hour(hours, "MB", lambda total: round(total.size_bytes / 1e6, 1), unit=" MB")


def _by_hour(hours: Sequence[HourTotal], label: str, value: Callable[[Total], float], *, unit: str) -> str | None:
    """An hour without a file between others is one in which nothing was written."""
    if len(hours) < 2:
        return None
    told = {int(one.hour.timestamp()): one.total for one in hours}
    seconds = range(min(told), max(told) + 1, 3600)
    values = [value(told.get(second, NOTHING)) for second in seconds]
    lines = ({"label": label, "colour": "--chart-out"},)
    return orjson.dumps({"lines": lines, "data": [list(seconds), values], "unit": unit}).decode()


def id_growth_chart_of(counts: Sequence[IdCount]) -> str:
    """How many ids there were, and how many of them ours."""
    data = [
        [int(count.at.timestamp()) for count in counts],
        [count.ids for count in counts],
        [count.ours for count in counts],
    ]
    return orjson.dumps({"lines": _ID_LINES, "data": data, "unit": ""}).decode()


def audits_chart_of(audits: Sequence[Audit]) -> str | None:
    """Expected outputs of each window of time, at its end; windows of which nothing is known stay empty."""
    spans = {audit.span[1]: audit for audit in reversed(audits) if audit.span is not None and audit.has_ended}
    ends = sorted(spans)
    results = [spans[end].result for end in ends]
    if sum(result is not None for result in results) < 2:
        return None
    data = [
        [int(end.timestamp()) for end in ends],
        [None if result is None else result.counts.expected for result in results],
        [None if result is None else _wrong(result.counts) for result in results],
    ]
    return orjson.dumps({"lines": _AUDIT_LINES, "data": data, "unit": ""}).decode()


def _wrong(counts: AuditCounts) -> int:
    return counts.lost.records + counts.duplicated.records + counts.unexpected.records + counts.dangling.records


def chart_of(samples: Sequence[RunSample]) -> str:
    """The JSON of a chart. Seconds without a sample stay empty: a gap is seen as a gap."""
    data = [
        [int(sample.at.timestamp()) for sample in samples],
        [round(sample.records_in_per_s, 1) for sample in samples],
        [round(sample.records_out_per_s, 1) for sample in samples],
        [round(sample.aborts_per_s, 1) for sample in samples],
    ]
    return orjson.dumps({"lines": _LINES, "data": data}).decode()
