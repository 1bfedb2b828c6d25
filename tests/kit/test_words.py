"""The formats of counts and durations."""

from __future__ import annotations

import pytest

from app.kit.words import count, number, span


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
        (-5, "0.0 s"),
        (340, "0.3 s"),
        (9_900, "9.9 s"),
        (10_000, "10 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_199_000, "120 min"),
        (7_200_000, "2 h"),
    ],
)
def test_span_has_one_unit(duration_ms: int, text: str) -> None:
    assert span(duration_ms) == text
