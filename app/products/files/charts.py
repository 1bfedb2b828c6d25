"""The charts of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.kit.web.pages.charts import Chart, ChartLine, chart_of
from app.products.files.totals import NOTHING, HourTotal, Total


def file_records_chart_of(hours: Sequence[HourTotal]) -> Chart | None:
    """Return the chart of records in files by hour; None for fewer than two hours."""
    return _by_hour(hours, "records", lambda total: total.records, unit=" records")


def file_sizes_chart_of(hours: Sequence[HourTotal]) -> Chart | None:
    """Return the chart of megabytes in files by hour; None for fewer than two hours."""
    return _by_hour(hours, "MB", lambda total: round(total.size_bytes / 1e6, 1), unit=" MB")


def _by_hour(hours: Sequence[HourTotal], label: str, value: Callable[[Total], float], *, unit: str) -> Chart | None:
    """Return a chart with zero for each hour without a file between others."""
    if len(hours) < 2:
        return None
    told = {int(one.hour.timestamp()): one.total for one in hours}
    seconds = range(min(told), max(told) + 1, 3600)
    values = [value(told.get(second, NOTHING)) for second in seconds]
    return chart_of([ChartLine(label, "--chart-out", values)], list(seconds), unit=unit)
