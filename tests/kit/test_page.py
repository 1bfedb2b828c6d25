"""Cursors are decoded as they were encoded, and other texts are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kit.errors import InvalidError
from app.kit.page import MAX_LIMIT, checked_limit, decode_cursor, encode_cursor

TEXT = st.text(st.characters(codec="utf-8"))


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_a_cursor_carries_its_keys_through_a_url(keys: list[str]) -> None:
    cursor = encode_cursor(*keys)
    assert cursor.isascii()
    assert not set(cursor) & set("+/=& ?#%")
    assert decode_cursor(cursor, keys=len(keys)) == tuple(keys)


@given(st.text(max_size=30))
def test_anything_else_is_refused_or_has_the_right_keys(text: str) -> None:
    with contextlib.suppress(InvalidError):
        assert len(decode_cursor(text, keys=2)) == 2


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidError, match="belongs to another list") as refused:
        decode_cursor(encode_cursor("a"), keys=2)
    assert refused.value.field == "after"


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1])
def test_a_limit_has_bounds(limit: int) -> None:
    with pytest.raises(InvalidError, match=f"from 1 to {MAX_LIMIT}"):
        checked_limit(limit)
