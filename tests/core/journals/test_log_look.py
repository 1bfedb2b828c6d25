"""The first offset of a range: an offset, a landmark, or an error for one outside the log."""

from __future__ import annotations

import pytest

from app.core.journals.log_look import Landmark, LogBounds, first_offset_of, parse_start
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
