"""The id under which an event is stored and found."""

from __future__ import annotations

import pytest

from app.core.fencing.record import LONGEST_ID_BYTES, kept_id


@pytest.mark.parametrize("name", ["", "fl.t.delayed-flights.0.0", "x" * LONGEST_ID_BYTES, "\N{SNOWMAN}" * 333])
def test_short_id_is_kept_unchanged(name: str) -> None:
    assert kept_id(name) == name


@pytest.mark.parametrize("letter", ["x", "ä", "\N{SNOWMAN}", "\x00", "\ud800"])
def test_long_id_is_shortened_and_found_by_the_shortened_id(letter: str) -> None:
    kept = kept_id(letter * 32_000)
    assert len(kept.encode()) <= LONGEST_ID_BYTES
    assert "\x00" not in kept
    assert kept_id(kept) == kept


@pytest.mark.parametrize("others", [("a", "b"), ("\x00", "\N{REPLACEMENT CHARACTER}")])
def test_long_ids_stay_apart(others: tuple[str, str]) -> None:
    assert len({kept_id("x" * 5_000 + end) for end in others}) == 2
