"""docs/measured/waiting.md and its pictures say what the two benchmarks found; what they judge by."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.latency.load import Sent
from bench.latency.measuring import QUANTILES, judged
from bench.start.moments import START, line_at, parts_s
from bench.waiting_page import (
    LATENCY,
    LATENCY_PICTURE,
    PAGE,
    START_PICTURE,
    STARTS,
    latency_picture,
    page,
    start_picture,
    svg,
)

_MS = 1_000_000


def test_page_and_pictures_are_made_of_the_results() -> None:
    latency, starts = (json.loads(result.read_text("utf-8")) for result in (LATENCY, STARTS))
    made_anew = "make them anew: python -m bench.waiting_page"
    assert PAGE.read_text("utf-8") == page(latency, starts), made_anew
    assert LATENCY_PICTURE.read_text("utf-8") == svg(latency_picture(latency)), made_anew
    assert START_PICTURE.read_text("utf-8") == svg(start_picture(starts)), made_anew


def read(numbers: list[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Each was due at a second's beginning, and read as many milliseconds later as its number."""
    return np.array([(number, 10**9, 10**9 + number * _MS) for number in numbers], np.int64)


def test_latency_is_of_the_records_after_the_warm_up() -> None:
    found = judged(read(list(range(200))), Sent(200, 0.5, 1.0), first=100)
    assert (found.records, found.lost, found.doubled) == (100, 0, 0)
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (149.0, 198.0, 199.0)
    assert len(found.quantiles_ms) == len(QUANTILES)


@pytest.mark.parametrize(("numbers", "said"), [([0, 2], "1 of 3 records are missing"), ([0, 1, 1, 2], "came twice")])
def test_record_that_is_missing_or_double_ends_it_even_in_the_warm_up(numbers: list[int], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        judged(read(numbers), Sent(3, 0.0, 0.0), first=2)


def test_parts_of_a_start_add_up_to_all_of_it() -> None:
    moments = {part.until: 100.0 + number for number, part in enumerate(START, 1)}
    found = parts_s(moments, START, asked=100.0)
    assert list(found) == [part.until for part in START]
    assert sum(found.values()) == len(START)


def test_a_part_that_ends_before_the_one_before_is_not_believed() -> None:
    moments = {part.until: 100.0 + number for number, part in enumerate(START, 1)}
    with pytest.raises(AssertionError, match=r"claimed came 2\.000 s before"):
        parts_s({**moments, "claimed": moments["claimed"] - 3.0}, START, asked=100.0)


def test_the_time_of_a_line_is_of_the_first_one_that_says_it() -> None:
    text = "Spark says\n2026-01-02 03:04:05,250 INFO a: begins\n2026-01-02 03:04:06,000 INFO a: begins\n"
    later = text.replace("05,250", "05,750")
    assert line_at(later, "a: begins") - line_at(text, "a: begins") == 0.5
