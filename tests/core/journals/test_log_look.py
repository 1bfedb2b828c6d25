"""The first offset of a range: an offset, a landmark, or an error for one outside the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.core.journals.log_look import FromTime, Landmark, LogBounds, first_offset_of, parse_start, start_text
from app.kit.errors import InvalidError

BOUNDS = LogBounds(first_offset=5, last_stable_offset=30, high_watermark=40)


@pytest.mark.parametrize(("text", "offset"), [("5", 5), ("39", 39), ("40", 40), ("start", 5), ("lso", 30), ("end", 20)])
def test_range_starts_at_the_requested_offset(text: str, offset: int) -> None:
    assert first_offset_of(parse_start(text), BOUNDS, limit=20, name="t-0") == offset


def test_end_of_a_short_log_is_all_of_it() -> None:
    assert first_offset_of(Landmark.END, BOUNDS, limit=500, name="t-0") == 5


@pytest.mark.parametrize("offset", [4, 41])
def test_error_for_an_offset_outside_the_log_names_the_valid_range(offset: int) -> None:
    with pytest.raises(InvalidError, match=rf"offset {offset} is out of range: t-0 has offsets 5 to 39") as raised:
        first_offset_of(offset, BOUNDS, limit=20, name="t-0")
    assert raised.value.field == "from"


def test_error_for_an_empty_log_says_so() -> None:
    empty = LogBounds(first_offset=7, last_stable_offset=7, high_watermark=7)
    assert first_offset_of(7, empty, limit=20, name="t-0") == 7
    with pytest.raises(InvalidError, match="is empty; its next record gets offset 7"):
        first_offset_of(0, empty, limit=20, name="t-0")


@pytest.mark.parametrize("text", ["", "-1", "1.5", "last", "²", "9" * 30])
def test_invalid_start_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="start, lso, end"):
        parse_start(text)


NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-31T09:00:00Z", NOW),
        ("2026-01-31T10:30:00+01:30", NOW),
        ("2026-01-31T08:59:59.500Z", NOW - timedelta(milliseconds=500)),
        ("15m", NOW - timedelta(minutes=15)),
        ("now", NOW),
    ],
)
def test_a_time_is_a_start_and_is_written_as_it_is_read(text: str, at: datetime) -> None:
    start = parse_start(text, now=NOW)
    assert start == FromTime(int(at.timestamp() * 1000))
    assert parse_start(start_text(start)) == start


@pytest.mark.parametrize("start", ["7", "start", "lso", "end"])
def test_other_starts_are_written_as_they_are_read(start: str) -> None:
    assert start_text(parse_start(start)) == start


@pytest.mark.parametrize("text", ["15m", "now", "2026-01-31T09:00:00", "2026-01-31"])
def test_a_time_without_a_zone_is_refused_and_a_span_needs_the_present(text: str) -> None:
    with pytest.raises(InvalidError, match="nor a time such as"):
        parse_start(text)


@pytest.mark.parametrize(("answer", "offset"), [(12, 12), (-1, 40), (2, 5)])
def test_a_time_begins_at_the_leaders_answer_or_at_the_end(answer: int, offset: int) -> None:
    found = first_offset_of(FromTime(7), BOUNDS, limit=20, name="t-0", at_time=lambda _: answer)
    assert found == offset
