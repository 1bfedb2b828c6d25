"""Charts: the axis, ranges, gaps, markers, and the bytes of each frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import json

from app.core.journals.transaction_pace import PaceSample
from app.core.observing.pages.charts import age_chart_of, open_chart_of, pace_chart_of
from app.core.runs.pages.charts import run_chart_of
from app.core.runs.series import RunPoint
from app.kit.chart_range import ChartRange, ChartWindow, window_of
from app.kit.web.pages.charts import (
    MOST_MARKERS,
    Chart,
    ChartLine,
    ChartMarker,
    MarkerKind,
    axis_top,
    chart_of,
    page_charts,
)

BEGAN_S = 1_800_000_000
NOW = datetime.fromtimestamp(BEGAN_S + 900, UTC)
QUARTER = window_of(ChartRange.QUARTER, now=NOW)
SAMPLES = tuple(
    PaceSample(BEGAN_S + second, open=second % 9, commits=1_500 + second, aborts=0, oldest_ms=1_234)
    for second in range(900)
)
PaceChart = Callable[[Sequence[PaceSample], ChartWindow], Chart]


def point(second: float, rate: float, *, low: float | None = None) -> RunPoint:
    return RunPoint(
        at=datetime.fromtimestamp(BEGAN_S + second, UTC),
        in_low=rate if low is None else low,
        in_high=rate,
        out_low=0,
        out_high=0,
        aborts=0,
    )


def test_first_second_stands_for_all() -> None:
    said = json.decode(pace_chart_of(SAMPLES, QUARTER).series)
    assert (said["first_s"], said["step_s"]) == (BEGAN_S, 1)
    commits, aborts = said["data"]
    assert commits == [sample.commits for sample in SAMPLES]
    assert aborts == [0] * len(SAMPLES)
    assert json.decode(age_chart_of(SAMPLES, QUARTER).series)["data"] == [[1.2] * len(SAMPLES)]


def test_chart_of_nothing_has_no_second() -> None:
    chart = open_chart_of((), QUARTER)
    assert json.decode(chart.series)["data"] == [[]]
    assert (chart.peaks, [path.d for path in chart.paths]) == ("", [""])


@pytest.mark.parametrize("chart", [open_chart_of, age_chart_of, pace_chart_of])
def test_quarter_of_an_hour_is_a_few_bytes_a_second(chart: PaceChart) -> None:
    assert len(chart(SAMPLES, QUARTER).series) < 8 * len(SAMPLES) + 150


def test_hour_has_the_lowest_and_the_highest_of_each_bucket() -> None:
    now = NOW + timedelta(minutes=45)
    hour = [PaceSample(BEGAN_S + 3 + second, 1 + (second == 2_000) * 40, 5, second == 2_000) for second in range(3_597)]
    window = window_of(ChartRange.HOUR, now=now)
    opened = json.decode(open_chart_of(hour, window).series)
    assert (opened["first_s"], opened["step_s"]) == (BEGAN_S + 10, 5)
    assert len(opened["data"][0]) == 2 * 359
    assert [value for value in opened["data"][0] if value != 1] == [41]
    _, aborts = json.decode(pace_chart_of(hour, window).series)["data"]
    assert sum(aborts) == 1


@pytest.mark.parametrize("peak", [0, 0.3, 1, 7.2, 99, 100, 400, 9_999, 72_116, 1_000_000, 123_456_789])
def test_axis_has_room_for_the_peak_which_is_named(peak: float) -> None:
    assert peak <= axis_top([0.0, peak, 0.0]) <= max(1.0, 2.1 * peak)
    chart = chart_of([ChartLine("in", "--chart-in", [400, peak, 400])], [0, 1, 2], unit="/s")
    assert json.decode(chart.series)["top"] >= max(400, peak)


def test_short_peak_is_named_with_its_time_and_is_inside_the_drawing() -> None:
    points = [point(second, 72_116 if second == 50 else 400) for second in range(900)]
    chart = run_chart_of(points, QUARTER)
    at = datetime.fromtimestamp(BEGAN_S + 50, UTC)
    assert chart.peaks == f"peaks: in 72,116/s at {at:%H:%M:%S}, out 0/s at {NOW - timedelta(minutes=15):%H:%M:%S} UTC"
    assert chart.scale == ("80,000/s", "40,000/s", "0/s")
    heights = [float(place.split()[1].removesuffix("h1")) for place in chart.paths[0].d.lstrip("M").split("L")]
    assert 0 <= min(heights) < 15, "the peak"
    assert max(heights) <= 100
    assert len(heights) <= 2 * 121, "the drawing is small, and still has the peak"


def test_time_without_samples_is_a_gap_and_a_late_sample_is_none() -> None:
    seconds = [*range(10), 12, 13, *range(60, 70)]
    chart = run_chart_of([point(second, 5) for second in seconds], QUARTER)
    times, entered, *_ = json.decode(chart.series)["data"]
    assert entered.count(None) == 1
    assert 13 < times[entered.index(None)] - BEGAN_S < 60
    assert chart.paths[0].d.count("M") == 2, "two lines"
    assert times == sorted(times)


def test_gap_of_a_long_range_is_longer_than_a_bucket() -> None:
    window = window_of(ChartRange.DAY, now=NOW)
    minutes = [-600, -597, -594, -300, -297]
    chart = run_chart_of([point(60 * minute, 9, low=2) for minute in minutes], window)
    times, entered, *_ = json.decode(chart.series)["data"]
    assert [value for value in entered if value is not None] == [2, 9] * 5
    assert entered.count(None) == 1
    assert [int(time) for time in times[:2]] == [BEGAN_S - 36_000, BEGAN_S - 36_000 + 90]


def test_charts_of_a_page_have_one_range_and_say_since_when_data_are_kept() -> None:
    window = window_of(ChartRange.SIX_HOURS, now=NOW)
    charts = page_charts(window, lambda span: f"/x?range={span}", kept_since=NOW - timedelta(hours=2))
    assert [(link.words, link.href) for link in charts.links if link.is_chosen] == [("6 h", "/x?range=6h")]
    assert len(charts.links) == 4
    assert charts.kept == f"kept since {NOW - timedelta(hours=2):%H:%M} UTC"
    assert not page_charts(window, lambda span: span, kept_since=NOW - timedelta(hours=7)).kept
    assert json.decode(run_chart_of([point(0, 1)], window).series)["from"] == window.since.timestamp()


def test_window_of_a_past_run_ends_with_it_and_reads_whole_minutes() -> None:
    ended = NOW - timedelta(days=2)
    window = window_of(ChartRange.QUARTER, now=NOW, ended_at=ended)
    assert window.until == ended + timedelta(seconds=1)
    assert (window.is_past, window.step_s) == (True, 60)
    assert window_of(ChartRange.HOUR, now=NOW).step_s == 10


def test_markers_are_of_the_range_and_those_too_near_are_one() -> None:
    def marker(second: float, kind: MarkerKind = MarkerKind.REBALANCE) -> ChartMarker:
        return ChartMarker(NOW - timedelta(seconds=second), kind, f"{second} s ago", "/there")

    many = [marker(second / 10) for second in range(1, 8_990)]
    charts = page_charts(QUARTER, lambda span: span, markers=[marker(1_000), *many, marker(30, MarkerKind.FENCING)])
    kinds = [one.kind for one in charts.markers]
    assert kinds.count(MarkerKind.FENCING) == 1
    assert 1 < kinds.count(MarkerKind.REBALANCE) <= MOST_MARKERS + 1
    assert "fencing event" in charts.counts
    assert charts.markers[-1].title.endswith(": 0.1 s ago")
    assert charts.markers[-1].title.split()[1] == "rebalances"
    alone = page_charts(QUARTER, lambda span: span, markers=[marker(30), marker(1_000)])
    assert [one.title for one in alone.markers] == ["30 s ago"]
    assert alone.counts == "1 rebalance"
