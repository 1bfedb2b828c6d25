"""The formats of counts and durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.kit.words import ago, count, duration, duration_s, milliseconds, moment, number

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0, "0"), (0.5, "0"), (1.5, "2"), (1_234_567, "1,234,567"), (-1_000, "-1,000")]
)
def test_number_is_whole_and_has_its_thousands_separated(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 records"), (1, "1 record"), (1_000, "1,000 records")])
def test_count_has_its_noun(value: int, text: str) -> None:
    assert count(value, "record") == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, "–"),
        (-5, "0 s"),
        (0, "0 s"),
        (4.25, "4 ms"),
        (99, "99 ms"),
        (340, "0.3 s"),
        (7_000, "7 s"),
        (9_900, "9.9 s"),
        (9_960, "10 s"),
        (10_000, "10 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (150_000, "2.5 min"),
        (7_199_000, "120 min"),
        (7_200_000, "2 h"),
        (47 * 3_600_000, "47 h"),
        (48 * 3_600_000, "2 days"),
        (180 * 86_400_000, "180 days"),
    ],
)
def test_duration_has_one_unit(duration_ms: float | None, text: str) -> None:
    assert duration(duration_ms) == text
    assert duration_s(None if duration_ms is None else duration_ms / 1000) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (4.25, "4.2 ms"), (0, "0 ms"), (62, "62 ms"), (999, "999 ms"), (10_000, "10 s"), (6_100, "6.1 s")],
)
def test_latency_is_exact_below_a_second(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("seconds_ago", "text"),
    [
        (0.4, "now"),
        (1, "1 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3_600, "1 h ago"),
        (90_000, "1 day ago"),
        (200_000, "2 days ago"),
        (-90, "in 1 min"),
    ],
)
def test_a_time_is_relative_in_one_unit(seconds_ago: float, text: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds_ago), NOW) == text
    assert ago(None, NOW) == "–"


@pytest.mark.parametrize("timestamp_ms", [None, -1, 2**63 - 1])
def test_timestamp_that_no_calendar_has_is_no_moment(timestamp_ms: int | None) -> None:
    assert moment(timestamp_ms) is None
