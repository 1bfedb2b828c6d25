"""The chart of runs: records in and out per second, with rebalances, fencing events and aborts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.fencing.service.feed import FencingLine
from app.core.observing.pages.markers import fencing_markers
from app.core.runs.series import RunPoint, RunRebalance
from app.kit.chart_range import ChartWindow
from app.kit.web.pages.charts import Chart, ChartLine, ChartMarker, MarkerKind, chart_of, with_gaps
from app.kit.words import count

_BRIDGED_S = 4
"""Each second has a sample while heartbeats arrive; one that is late is no gap."""


def run_chart_of(points: Sequence[RunPoint], window: ChartWindow, markers: Sequence[ChartMarker] = ()) -> Chart:
    """Draw the lowest and the highest rates of each bucket. A time without samples is a gap."""
    step_s = window.step_s
    shifts = (0,) if step_s == 1 else (0, step_s / 2)
    seconds = [point.at.timestamp() + shift for point in points for shift in shifts]
    values = [
        [round(value, 1) for point in points for value in (point.in_low, point.in_high)[-len(shifts) :]],
        [round(value, 1) for point in points for value in (point.out_low, point.out_high)[-len(shifts) :]],
        [round(value, 1) for point in points for value in (0.0, point.aborts)[-len(shifts) :]],
    ]
    times, (entered, left, aborts) = with_gaps(seconds, values, longest_s=max(_BRIDGED_S, 1.5 * step_s))
    lines = (
        ChartLine("in", "--chart-in", entered),
        ChartLine("out", "--chart-out", left),
        # Not on the scale of records: a mark where there were any.
        ChartLine("aborts", "--chart-abort", aborts, is_mark=True),
    )
    return chart_of(lines, times, unit="/s", window=window, markers=markers)


def run_markers(
    rebalances: Iterable[RunRebalance], fencings: Iterable[FencingLine], *, group_url: str
) -> list[ChartMarker]:
    """Return the markers of a pipeline's chart. group_url: the page of its group, which lists the rebalances."""
    found = [
        ChartMarker(
            one.at,
            MarkerKind.REBALANCE,
            f"generation {one.generation}: {count(one.tasks, 'task')} got partitions",
            group_url,
        )
        for one in rebalances
    ]
    return [*found, *fencing_markers(fencings)]
