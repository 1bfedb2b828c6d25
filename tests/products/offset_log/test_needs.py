"""What the offset log shows that needs a person."""

from __future__ import annotations

from app.products.offset_log.check import MAX_FINDINGS
from app.products.offset_log.needs import contradiction_need


def test_contradictions_of_which_only_so_many_are_kept_are_at_least_so_many() -> None:
    few, many = contradiction_need("flights", MAX_FINDINGS - 1), contradiction_need("flights", MAX_FINDINGS)
    assert "contradicts itself 99 times" in few.sentence
    assert "contradicts itself at least 100 times" in many.sentence
