"""The charts of a query: bars of parts on one scale, and lines of state and watermark."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from app.products.dataframes.batch import BatchPart
from app.products.dataframes.chart import HEIGHT, duration_chart_of, state_chart_of, watermark_chart_of
from tests.support.queries import NOW, batch


def test_parts_and_the_rest_fill_the_trigger() -> None:
    lengths = batch(0).lengths_ms()
    assert lengths == {
        BatchPart.OFFSETS: 50,
        BatchPart.PLANNING: 50,
        BatchPart.ADDING: 600,
        BatchPart.COMMITTING: 100,
        BatchPart.OTHER: 100,
    }
    assert batch(0, trigger_ms=10).lengths_ms()[BatchPart.OTHER] == 0


def test_bars_stand_on_the_ground_oldest_first() -> None:
    chart = duration_chart_of([batch(2), batch(1), batch(0)], interval_ms=1_000)
    assert chart is not None
    assert [bar.batch for bar in chart.bars] == [0, 1, 2]
    assert chart.parts == tuple(BatchPart)
    assert chart.scale == ("1.5 s", "750 ms", "0")
    assert chart.interval_y == pytest.approx(HEIGHT / 3, abs=0.1)
    for bar in chart.bars:
        assert bar.segments[0].y + bar.segments[0].height == HEIGHT
        assert sum(one.height for one in bar.segments) == pytest.approx(900 / 1_500 * HEIGHT, abs=0.1)
        assert 0 <= bar.x <= 100 - bar.width
    assert "adding 600 ms" in chart.bars[0].title


def test_one_long_batch_is_cut_and_the_others_stay_visible() -> None:
    slow = batch(0, trigger_ms=60_000)
    chart = duration_chart_of([*(batch(number) for number in range(8, 0, -1)), slow], interval_ms=1_000)
    assert chart is not None
    assert [bar.batch for bar in chart.bars if bar.is_cut] == [0]
    assert chart.longest == "60 s"
    assert all(one.y >= 0 for bar in chart.bars for one in bar.segments)
    assert sum(one.height for one in chart.bars[-1].segments) > HEIGHT / 5


@pytest.mark.parametrize("interval_ms", [None, 0, 1_000])
def test_batches_without_any_duration_are_drawn(interval_ms: int | None) -> None:
    chart = duration_chart_of([batch(0, trigger_ms=0, parts_ms={})], interval_ms=interval_ms)
    assert chart is not None
    assert chart.bars[0].segments == ()
    assert (chart.interval_y is None) is (not interval_ms)


def test_no_chart_without_data() -> None:
    assert duration_chart_of([], interval_ms=1_000) is None
    stateless = [batch(number, state_bytes=None, watermark=None) for number in (1, 0)]
    assert state_chart_of(stateless) is None
    assert watermark_chart_of(stateless) is None
    assert state_chart_of([batch(0)]) is None


@pytest.mark.parametrize(
    ("age", "unit", "value"),
    [
        (timedelta(seconds=30), " s", 30),
        (timedelta(minutes=30), " min", 30),
        (timedelta(hours=30), " h", 30),
        (timedelta(days=4_700), " days", 4_700),
        (timedelta(seconds=-30), " s", 0),
    ],
)
def test_watermark_age_has_the_unit_that_reads_best(age: timedelta, unit: str, value: float) -> None:
    ends = [NOW + timedelta(seconds=number) for number in (1, 0)]
    chart = watermark_chart_of([batch(0, ended_at=end, watermark=end - age) for end in ends])
    assert chart is not None
    told = orjson.loads(chart.series)
    assert told["unit"] == unit
    assert told["data"][1] == [value, value]
    assert told["data"][0] == sorted(told["data"][0])


def test_state_is_in_megabytes_with_ascending_times() -> None:
    chart = state_chart_of([batch(1, ended_at=NOW), batch(0, ended_at=NOW + timedelta(seconds=5))])
    assert chart is not None
    told = orjson.loads(chart.series)
    assert told["data"] == [[NOW.timestamp(), NOW.timestamp() + 5], [2, 2]]
    assert chart.unit == "MB"
    small = state_chart_of([batch(1, ended_at=NOW, state_bytes=32_000), batch(0, state_bytes=45_000)])
    assert small is not None
    assert small.unit == "kB"
    assert sorted(orjson.loads(small.series)["data"][1]) == [32, 45]
