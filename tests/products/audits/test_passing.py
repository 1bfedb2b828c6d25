"""Whether a pipeline has passed a window, and whether it can."""

from __future__ import annotations

from app.products.audits.passing import NotPassed, beyond, not_passed


def test_what_the_pipeline_has_still_to_process_is_named() -> None:
    committed = {("in", 0): 10, ("in", 1): 7}
    assert not_passed(committed, {("in", 0): 10, ("in", 1): 7}) is None
    assert not_passed(committed, {("in", 0): 10, ("in", 1): 12}) == NotPassed(
        reason="the pipeline has not committed all of the window: in-1 (5 offsets) to go"
    )
    assert not_passed(committed, {("in", number): 20 for number in range(5)}) == NotPassed(
        reason="the pipeline has not committed all of the window: in-0 (10 offsets), in-1 (13 offsets), in-2 (no "
        "offset) and 2 more to go"
    )


def test_offsets_that_are_not_there_can_never_be_passed() -> None:
    ends = {("in", 0): 10, ("in", 1): 1_000}
    assert beyond({("in", 0): 10, ("in", 1): 999}, ends) is None
    assert beyond({("in", 1): 1_001}, ends) == NotPassed(
        reason="in-1 ends at offset 1,000, before the window does (1,001): audit up to what is there", is_final=True
    )
    assert beyond({("out", 0): 1}, ends) == NotPassed(
        reason="out-0 is no partition that the pipeline reads", is_final=True
    )
