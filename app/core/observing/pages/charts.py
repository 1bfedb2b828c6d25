"""The charts of transactions.

No second is missing, so only the first one is sent: a frame has several charts, many times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.core.journals.transaction_pace import PaceSample
from app.kit.chart_range import ChartWindow
from app.kit.web.pages.charts import Chart, ChartLine, ChartMarker, chart_of


def pace_chart_of(samples: Sequence[PaceSample], window: ChartWindow, markers: Sequence[ChartMarker] = ()) -> Chart:
    """Commits a second, and the seconds with aborts."""
    kept = _whole_buckets(samples, window)
    lines = (
        _line("commits", "--chart-out", kept, window, lambda sample: sample.commits),
        # Not on the scale of commits: a mark where there were any.
        _line("aborts", "--chart-abort", kept, window, lambda sample: sample.aborts, is_mark=True),
    )
    return _by_second(lines, kept, window, markers, unit="/s")


def open_chart_of(samples: Sequence[PaceSample], window: ChartWindow, markers: Sequence[ChartMarker] = ()) -> Chart:
    """The number of open transactions at the end of each second."""
    kept = _whole_buckets(samples, window)
    line = _line("open", "--chart-in", kept, window, lambda sample: sample.open)
    return _by_second((line,), kept, window, markers, unit=" transactions")


def age_chart_of(samples: Sequence[PaceSample], window: ChartWindow, markers: Sequence[ChartMarker] = ()) -> Chart:
    """The age of the oldest open transaction at the end of each second."""
    kept = _whole_buckets(samples, window)
    line = _line("oldest", "--warn", kept, window, lambda sample: round(sample.oldest_ms / 1000, 1))
    return _by_second((line,), kept, window, markers, unit=" s")


def _whole_buckets(samples: Sequence[PaceSample], window: ChartWindow) -> Sequence[PaceSample]:
    """Return the samples from the begin of a bucket on, so that buckets stay the same from view to view."""
    begin = -samples[0].second % window.step_s if samples else 0
    return samples[begin:]


def _line(
    label: str,
    colour: str,
    samples: Sequence[PaceSample],
    window: ChartWindow,
    value: Callable[[PaceSample], float],
    *,
    is_mark: bool = False,
) -> ChartLine:
    values = [value(sample) for sample in samples]
    size = window.step_s
    if size > 1:
        buckets = [values[begin : begin + size] for begin in range(0, len(values), size)]
        values = [end for bucket in buckets for end in (0 if is_mark else min(bucket), max(bucket))]
    return ChartLine(label, colour, values, is_mark)


def _by_second(
    lines: Sequence[ChartLine],
    samples: Sequence[PaceSample],
    window: ChartWindow,
    markers: Sequence[ChartMarker],
    *,
    unit: str,
) -> Chart:
    """Draw consecutive samples: one a second, or the lowest and the highest of each bucket."""
    step_s = 1 if window.step_s == 1 else window.step_s / 2
    first_s = samples[0].second if samples else 0
    seconds = [first_s + index * step_s for index in range(len(lines[0].values))]
    return chart_of(lines, seconds, unit=unit, window=window, step_s=step_s, markers=markers)
