"""Differences between written and returned records are named, and equal ones are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.products.conformance.comparing import SeenRecord, difference, judge
from app.products.conformance.report import ConformanceVerdict

VALUES = st.lists(st.sampled_from("abcdef"), unique=True)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (["a", "b"], ""),
        (["a"], "not returned: b"),
        (["a", "b", "b"], "returned more than once: b"),
        (["a", "b", "x"], "unexpected: x"),
        (["b", "a"], "returned in the order b, a, written in the order a, b"),
        ([], "not returned: a, b"),
        (["x", "x", "b"], "not returned: a; unexpected: x"),
    ],
)
def test_each_way_to_differ_is_named(seen: list[str], says: str) -> None:
    assert difference(seen, ["a", "b"]) == says


@given(seen=st.lists(st.sampled_from("abcdef")), expected=VALUES)
def test_equal_values_have_no_difference_and_all_others_have_one(seen: list[str], expected: list[str]) -> None:
    assert (difference(seen, expected) == "") == (seen == expected)


def test_long_lists_are_cut() -> None:
    assert difference([], list("abcdefg")) == "not returned: a, b, c, d, e and 2 more"


def test_partitions_are_judged_each_for_itself() -> None:
    seen = [SeenRecord(1, 0, "right"), SeenRecord(0, 0, "left")]
    assert judge(seen, {0: ["left"], 1: ["right"]}, "both").verdict is ConformanceVerdict.KEPT
    torn = judge(seen[:1], {0: ["left"], 1: ["right"]}, "both")
    assert (torn.verdict, torn.said) == (ConformanceVerdict.BROKEN, "partition 0: not returned: left")
    elsewhere = judge([*seen, SeenRecord(2, 0, "stray")], {0: ["left"], 1: ["right"]}, "both")
    assert elsewhere.said == "partition 2: unexpected: stray"
