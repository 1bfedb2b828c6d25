"""Times and spans as a person types them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.kit.moments import WordsError, moment_of, span_of, span_text

NOW = datetime(2026, 11, 22, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("90m", NOW - timedelta(minutes=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("2026-11-22T04:00:00Z", NOW - timedelta(hours=1)),
        ("2026-11-22T06:00:00+02:00", NOW - timedelta(hours=1)),
    ],
)
def test_a_moment_is_a_time_or_a_span_before_now(text: str, expected: datetime) -> None:
    assert moment_of(text, now=NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "h", "2026-11-22T04:00:00", "-1h", "999999d"])
def test_an_invalid_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WordsError, match="expected a time with its zone"):
        moment_of(text, now=NOW)


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 90, 3_600, 5_400, 86_400])
def test_a_span_is_read_as_it_is_written(seconds: int) -> None:
    assert span_of(span_text(seconds)) == timedelta(seconds=seconds)
