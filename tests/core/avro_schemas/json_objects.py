"""Hypothesis strategies of JSON objects with few names and many kinds of values, so that places meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

MAX_EXACT = 1 << 53

names = st.sampled_from(["a", "b", "type", "x-y", "_x", "é", "", 'quoted "name"', "a.b"])
integers = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([MAX_EXACT, -MAX_EXACT, MAX_EXACT + 1, -MAX_EXACT - 1, (1 << 63) - 1, -(1 << 63)]),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(names, values, max_size=4)
"""JSON objects that have a shape."""
