"""Text formats of windows and ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.kit.moments import WordsError
from app.products.audits.plan import time_window
from app.products.audits.specification import Everything, HeaderId, JsonField, RecordKey
from app.products.audits.words import id_place_of, id_place_text, window_words

NOW = datetime(2026, 11, 22, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize("place", [RecordKey(), JsonField(path="order.id"), HeaderId(name="trace:id")])
def test_place_of_an_id_is_parsed_as_written(place: JsonField | HeaderId | RecordKey) -> None:
    assert id_place_of(id_place_text(place)) == place


@pytest.mark.parametrize("text", ["", "order.id", "json:", "header:", "key:x"])
def test_invalid_place_of_an_id_is_refused(text: str) -> None:
    with pytest.raises(WordsError, match="expected key, json:PATH or header:NAME"):
        id_place_of(text)


def test_window_is_written_in_utc() -> None:
    assert window_words(time_window(NOW - timedelta(hours=1), NOW)) == "2026-11-22 04:00 to 05:00 UTC"
    assert window_words(time_window(NOW - timedelta(days=1), NOW)) == "2026-11-21 05:00 to 2026-11-22 05:00 UTC"
    assert window_words(Everything()) == "everything"
