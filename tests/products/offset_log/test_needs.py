"""The issue of contradicting offset events."""

from __future__ import annotations

from app.products.offset_log.check import MAX_FINDINGS
from app.products.offset_log.needs import contradiction_need


def test_number_of_contradictions_at_the_bound_is_a_minimum() -> None:
    few, many = contradiction_need("flights", MAX_FINDINGS - 1), contradiction_need("flights", MAX_FINDINGS)
    assert "contradict each other 99 times" in few.sentence
    assert "contradict each other at least 100 times" in many.sentence
