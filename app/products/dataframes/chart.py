"""The charts of a query: durations of its batches by part, size of the state, and age of the watermark."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from app.kit.web.pages.charts import Chart, ChartLine, chart_of
from app.kit.words import milliseconds
from app.products.dataframes.batch import BatchPart, QueryBatch

HEIGHT = 160
_FEWEST_SLOTS = 20
_GAP = 0.2
"""Between two bars, as a share of their distance."""
_ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
_AGES = ((2 * 86_400, 86_400, "days"), (2 * 3_600, 3_600, "h"), (120, 60, "min"), (0, 1, "s"))
"""Units of an age: from this many seconds, the seconds of one, its name."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a bar, in pixels from the top."""

    part: BatchPart
    y: float
    height: float


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One batch. x, width: percent of the chart. is_cut: it is longer than the scale."""

    batch: int
    x: float
    width: float
    title: str
    segments: tuple[Segment, ...]
    is_cut: bool


class DurationChart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars of durations, oldest first. parts: those that any bar has. scale: its labels from the top.

    interval_y: the line of the trigger interval, in pixels from the top.
    """

    bars: tuple[Bar, ...]
    parts: tuple[BatchPart, ...]
    scale: tuple[str, str, str]
    interval_y: float | None
    longest: str


def duration_chart_of(batches: Sequence[QueryBatch], *, interval_ms: int | None) -> DurationChart | None:
    """Draw the batches, newest first, as stacked bars; None without any.

    A few very long batches are cut, so that the others stay visible.
    """
    if not batches:
        return None
    ordered = list(reversed(batches))
    lengths = [_total(one) for one in ordered]
    roof = _roof([*lengths, interval_ms or 0])
    distance = 100 / max(_FEWEST_SLOTS, len(ordered))
    bars = tuple(
        Bar(
            batch=one.batch,
            x=round(index * distance, 3),
            width=round(distance * (1 - _GAP), 3),
            title=_title(one),
            segments=_segments(one, roof),
            is_cut=total > roof,
        )
        for index, (one, total) in enumerate(zip(ordered, lengths, strict=True))
    )
    drawn = {one.part for bar in bars for one in bar.segments}
    return DurationChart(
        bars=bars,
        parts=tuple(part for part in BatchPart if part in drawn),
        scale=(milliseconds(roof), milliseconds(roof / 2), "0"),
        interval_y=None if not interval_ms else round(HEIGHT * (1 - interval_ms / roof), 1),
        longest=milliseconds(max(lengths)),
    )


def state_chart_of(batches: Sequence[QueryBatch]) -> Chart | None:
    """Return the memory of the state at the end of each batch; None for fewer than two batches with state."""
    sizes = [(one, one.state_bytes) for one in batches if one.state_bytes is not None]
    unit, unit_bytes = ("MB", 1e6) if any(size >= 1e6 for _, size in sizes) else ("kB", 1e3)
    return _line([(one, size / unit_bytes) for one, size in sizes], "state", "--chart-in", unit=f" {unit}")


def watermark_chart_of(batches: Sequence[QueryBatch]) -> Chart | None:
    """Return the age of the watermark at the end of each batch; None for fewer than two batches with one.

    A watermark that is ahead has the age 0.
    """
    ages = [
        (one, max(0.0, (one.ended_at - one.watermark).total_seconds())) for one in batches if one.watermark is not None
    ]
    longest = max((age for _, age in ages), default=0.0)
    length_s, name = next((length_s, name) for least, length_s, name in _AGES if longest >= least)
    return _line([(one, age / length_s) for one, age in ages], "age", "--warn", unit=f" {name}")


def _line(told: Sequence[tuple[QueryBatch, float]], label: str, colour: str, *, unit: str) -> Chart | None:
    if len(told) < 2:
        return None
    # Clocks of drivers differ, and the chart needs ascending times.
    points = sorted((round(one.ended_at.timestamp(), 3), round(value, 3)) for one, value in told)
    return chart_of([ChartLine(label, colour, [value for _, value in points])], [at for at, _ in points], unit=unit)


def _total(batch: QueryBatch) -> int:
    return sum(batch.lengths_ms().values())


def _segments(batch: QueryBatch, roof: float) -> tuple[Segment, ...]:
    found: list[Segment] = []
    bottom = float(HEIGHT)
    for part, ms in batch.lengths_ms().items():
        top = max(0.0, bottom - ms / roof * HEIGHT)
        if top < bottom:
            found.append(Segment(part=part, y=round(top, 2), height=round(bottom - top, 2)))
        bottom = top
    return tuple(found)


def _title(batch: QueryBatch) -> str:
    parts = [f"{part} {milliseconds(ms)}" for part, ms in batch.lengths_ms().items() if ms]
    return f"Batch {batch.batch}: {milliseconds(batch.trigger_ms)}" + (f" ({', '.join(parts)})" if parts else "")


def _roof(lengths_ms: Sequence[float]) -> float:
    """Return the top of the scale: a round figure above 95 % of the lengths, as in chart.js."""
    ordered = sorted(lengths_ms)
    usual, most = ordered[math.floor(len(ordered) * 0.95)], ordered[-1]
    if len(ordered) < _FEWEST_SLOTS:
        usual = ordered[math.floor(len(ordered) * 0.75)]
    wanted = max((2 * usual if 0 < 5 * usual < most else most) * 1.05, 10)
    size = 10 ** math.floor(math.log10(wanted))
    return next(step * size for step in _ROUND if step * size >= wanted)
