"""Charts over time: lines on an axis that has room for every value, gaps, and markers of events.

The server draws each chart as SVG, and names its peaks in a sentence. With JavaScript, chart.js draws the same values
on the same axis in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, NamedTuple

import orjson
from fastapi import Query

from app.kit.chart_range import ChartRange, ChartWindow
from app.kit.words import count

ChosenRange = Annotated[ChartRange, Query(alias="range")]

MOST_MARKERS = 60
"""The most markers of one kind on a chart: those that are nearer to each other are one."""
_DAY_S = 86_400
_ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
_COLUMNS = 120
"""The server's own drawing has a lowest and a highest value in each of them."""
_WIDTH, _HEIGHT = 1_000, 100


class ChartLine(NamedTuple):
    """values: one for each time; None: a gap. colour: a custom property of the stylesheet.

    is_mark: not on the axis; a dashed vertical line where the value is above 0.
    """

    label: str
    colour: str
    values: Sequence[float | None]
    is_mark: bool = False


class MarkerKind(StrEnum):
    REBALANCE = "rebalance"
    FENCING = "fencing"

    def counted(self, number: int) -> str:
        return count(number, "rebalance" if self is MarkerKind.REBALANCE else "fencing event")


class ChartMarker(NamedTuple):
    """An event on a chart: a vertical line, and a row of the table below. href: the event's page."""

    at: datetime
    kind: MarkerKind
    title: str
    href: str

    @property
    def second(self) -> int:
        return int(self.at.timestamp())


class DrawnPath(NamedTuple):
    """d: of an SVG path, in a box of 1,000 x 100. label: of its line."""

    tone: str
    d: str
    label: str


class Chart(NamedTuple):
    """series: the JSON for chart.js. peaks: the highest value of each line with its time. scale: the axis's labels,
    from the top. times: the first and the last moment. markers: (kind, x, title), x as in `paths`.
    """

    series: str
    unit: str
    peaks: str
    scale: tuple[str, str, str]
    times: tuple[str, str]
    paths: tuple[DrawnPath, ...]
    markers: tuple[tuple[MarkerKind, float, str], ...] = ()


class RangeLink(NamedTuple):
    words: str
    href: str
    is_chosen: bool


class PageCharts(NamedTuple):
    """The range control of a page and the markers of its charts. span: `last 15 min`.

    kept: a sentence if the page has no data of the whole range; else empty.
    """

    links: tuple[RangeLink, ...]
    span: str
    markers: tuple[ChartMarker, ...] = ()
    kept: str = ""

    @property
    def counts(self) -> str:
        """`2 rebalances, 1 fencing event`; empty without a marker."""
        kinds = [one.kind for one in self.markers]
        return ", ".join(kind.counted(kinds.count(kind)) for kind in MarkerKind if kind in kinds)


def page_charts(
    window: ChartWindow,
    address: Callable[[str], str],
    *,
    markers: Sequence[ChartMarker] = (),
    kept_since: datetime | None = None,
) -> PageCharts:
    """Return the range control. address: the page's address with this `range`. kept_since: of the oldest data."""
    words = window.chosen.words
    is_short = kept_since is not None and kept_since > window.since
    return PageCharts(
        links=tuple(RangeLink(one.words, address(one.value), one is window.chosen) for one in ChartRange),
        span=f"until {clock(window.until, window)} UTC, {words}" if window.is_past else f"last {words}",
        markers=tuple(sorted(one for one in folded(markers, window))),
        kept=f"kept since {clock(kept_since, window)} UTC" if is_short and kept_since is not None else "",
    )


def folded(markers: Sequence[ChartMarker], window: ChartWindow) -> list[ChartMarker]:
    """Return the markers of the window; of those that are too near to each other the newest, with their number."""
    apart_s = max(1.0, window.chosen.length.total_seconds() / MOST_MARKERS)
    by_place: dict[tuple[MarkerKind, int], list[ChartMarker]] = {}
    for one in sorted(markers):
        if window.holds(one.at):
            by_place.setdefault((one.kind, int(one.second // apart_s)), []).append(one)
    return [
        near[-1]
        if len(near) == 1
        else near[-1]._replace(
            title=f"{near[-1].kind.counted(len(near))} since {near[0].at:%H:%M:%S}: {near[-1].title}"
        )
        for near in by_place.values()
    ]


def chart_of(
    lines: Sequence[ChartLine],
    seconds: Sequence[float],
    *,
    unit: str,
    window: ChartWindow | None = None,
    step_s: float | None = None,
    markers: Sequence[ChartMarker] = (),
) -> Chart:
    """Draw lines over ascending times.

    unit: of the axis, as it follows a number, with its space: ` records`, `/s`. window: the whole axis of times, also
    where it has no value; None: from the first time to the last. step_s: the times are that far apart, each of them,
    so that only the first one is sent.
    """
    first_s, last_s = _axis_of(seconds, window)
    top = axis_top([value for line in lines if not line.is_mark for value in line.values if value is not None])
    label = unit.strip().lstrip("/")
    told: dict[str, object] = {
        "lines": [{"label": one.label, "colour": one.colour, "is_mark": one.is_mark} for one in lines],
        "unit": unit,
        "top": top,
        "from": first_s,
        "to": last_s,
    }
    values = [line.values for line in lines]
    if step_s is None:
        told["data"] = [seconds, *values]
    else:
        told |= {"first_s": seconds[0] if seconds else 0, "step_s": step_s, "data": values}
    scale_to = (last_s - first_s) or 1
    return Chart(
        series=orjson.dumps(told).decode(),
        unit=f"per {label}" if unit.startswith("/") else label,
        peaks=_peaks(lines, seconds, unit),
        scale=tuple(f"{figure(share * top)}{unit}" for share in (1, 0.5, 0)),  # pyright: ignore[reportArgumentType]
        times=(_clock(first_s, last_s - first_s), _clock(last_s, last_s - first_s)),
        paths=tuple(
            DrawnPath(
                line.colour.removeprefix("--"),
                (_marks if line.is_mark else _path)(seconds, line.values, first_s=first_s, last_s=last_s, top=top),
                line.label,
            )
            for line in lines
        ),
        markers=tuple(
            (one.kind, round((one.second - first_s) / scale_to * _WIDTH, 1), one.title)
            for one in (folded(markers, window) if window is not None else ())
        ),
    )


def with_gaps(
    seconds: Sequence[float], values: Sequence[Sequence[float | None]], *, longest_s: float
) -> tuple[list[float], list[list[float | None]]]:
    """Return the same with an empty time in each gap that is longer than `longest_s`, so that no line crosses it."""
    times: list[float] = list(seconds[:1])
    filled: list[list[float | None]] = [list(row[:1]) for row in values]
    for index, (before, after) in enumerate(pairwise(seconds), start=1):
        if after - before > longest_s:
            times.append(before + longest_s / 2)
            for row in filled:
                row.append(None)
        times.append(after)
        for row, given in zip(filled, values, strict=True):
            row.append(given[index])
    return times, filled


def axis_top(values: Sequence[float]) -> float:
    """Return a round figure above all values, so that it seldom changes; 1 at least."""
    wanted = max(max(values, default=0.0) * 1.02, 1.0)
    size = 10.0 ** math.floor(math.log10(wanted))
    return next(step * size for step in _ROUND if step * size >= wanted)


def figure(value: float) -> str:
    """Format a value on an axis: one decimal below ten, none above."""
    return f"{value:,.1f}".removesuffix(".0") if value < 10 else f"{value:,.0f}"


def clock(at: datetime, window: ChartWindow) -> str:
    return _clock(at.timestamp(), (window.until - window.since).total_seconds())


def _clock(second: float, length_s: float) -> str:
    """Format a time in UTC: with its day if the axis is longer than one, and with seconds up to an hour."""
    form = "%m-%d %H:%M" if length_s > _DAY_S else "%H:%M:%S" if length_s <= 3_600 else "%H:%M"
    return datetime.fromtimestamp(second, UTC).strftime(form)


def _axis_of(seconds: Sequence[float], window: ChartWindow | None) -> tuple[float, float]:
    if window is not None:
        return int(window.since.timestamp()), int(window.until.timestamp())
    return (seconds[0], seconds[-1]) if seconds else (0, 0)


def _peaks(lines: Sequence[ChartLine], seconds: Sequence[float], unit: str) -> str:
    found: list[str] = []
    length_s = seconds[-1] - seconds[0] if seconds else 0
    shown = [line for line in lines if not line.is_mark]
    for line in shown:
        known = [(value, -at) for value, at in zip(line.values, seconds, strict=True) if value is not None]
        if known:
            value, at = max(known)
            name = f"{line.label} " if len(shown) > 1 else ""
            found.append(f"{name}{figure(value)}{unit} at {_clock(-at, length_s)}")
    return f"{'peak' if len(shown) == 1 else 'peaks:'} {', '.join(found)} UTC" if found else ""


def _path(
    seconds: Sequence[float], values: Sequence[float | None], *, first_s: float, last_s: float, top: float
) -> str:
    """Return the line with a lowest and a highest value in each column; a gap begins another part of it."""
    parts: list[list[tuple[float, float]]] = [[]]
    column: list[tuple[float, float]] = []
    number = -1

    def close() -> None:
        if column:
            ends = {min(column, key=lambda one: one[1]), max(column, key=lambda one: one[1])}
            parts[-1].extend(sorted(ends))
            column.clear()

    for at, value in zip(seconds, values, strict=True):
        if value is None:
            close()
            if parts[-1]:
                parts.append([])
            continue
        if not first_s <= at <= last_s:
            continue
        if (here := _place(at, first_s, last_s) * _COLUMNS // _WIDTH) != number:
            close()
            number = int(here)
        column.append((at, value))
    close()
    drawn: list[str] = []
    for part in parts:
        places = [
            f"{_place(at, first_s, last_s):.0f} {_HEIGHT - value / top * _HEIGHT:.1f}".removesuffix(".0")
            for at, value in part
        ]
        # A value between two gaps is a point.
        drawn.append("M" + "L".join(places) + ("h1" if len(places) == 1 else "") if places else "")
    return "".join(drawn)


def _marks(
    seconds: Sequence[float], values: Sequence[float | None], *, first_s: float, last_s: float, top: float
) -> str:
    del top
    places = {round(_place(at, first_s, last_s)) for at, value in zip(seconds, values, strict=True) if value}
    return "".join(f"M{x} 0v{_HEIGHT}" for x in sorted(places))


def _place(at: float, first_s: float, last_s: float) -> float:
    return (at - first_s) / ((last_s - first_s) or 1) * _WIDTH
