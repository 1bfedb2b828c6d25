"""Windows and ids as people type them: what is typed is read back the same, what is none is refused with what is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.audits.plan import time_window
from app.domain.audits.specification import Everything, Header, JsonField, RecordKey
from app.domain.audits.words import (
    WordsError,
    id_place_of,
    id_place_text,
    moment_of,
    span_of,
    span_text,
    window_words,
)

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


@pytest.mark.parametrize("text", ["", "yesterday", "h", "2026-11-22T04:00:00", "-1h"])
def test_what_is_no_moment_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(WordsError, match="expected a time with its zone"):
        moment_of(text, now=NOW)


@pytest.mark.parametrize("place", [RecordKey(), JsonField(path="order.id"), Header(name="trace:id")])
def test_an_id_is_read_as_it_is_written(place: JsonField | Header | RecordKey) -> None:
    assert id_place_of(id_place_text(place)) == place


@pytest.mark.parametrize("text", ["", "order.id", "json:", "header:", "key:x"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(WordsError, match="expected key, json:PATH or header:NAME"):
        id_place_of(text)


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 90, 3_600, 5_400, 86_400])
def test_a_span_is_read_as_it_is_written(seconds: int) -> None:
    assert span_of(span_text(seconds)) == timedelta(seconds=seconds)


def test_a_window_is_told_in_utc() -> None:
    assert window_words(time_window(NOW - timedelta(hours=1), NOW)) == "2026-11-22 04:00 to 05:00 UTC"
    assert window_words(time_window(NOW - timedelta(days=1), NOW)) == "2026-11-21 05:00 to 2026-11-22 05:00 UTC"
    assert window_words(Everything()) == "everything"
