"""Progress of a pipeline through a window."""

from __future__ import annotations

from app.core.clusters.partition import Partition
from app.products.audits.passing import NotPassed, beyond, not_passed


def test_uncommitted_partitions_are_named() -> None:
    committed = {Partition("in", 0): 10, Partition("in", 1): 7}
    assert not_passed(committed, {Partition("in", 0): 10, Partition("in", 1): 7}) is None
    assert not_passed(committed, {Partition("in", 0): 10, Partition("in", 1): 12}) == NotPassed(
        reason="the pipeline has not committed the whole window: in-1 (5 offsets) remain"
    )
    assert not_passed(committed, {Partition("in", number): 20 for number in range(5)}) == NotPassed(
        reason="the pipeline has not committed the whole window: in-0 (10 offsets), in-1 (13 offsets), in-2 (no "
        "offset) and 2 more remain"
    )


def test_offsets_after_the_end_are_final() -> None:
    ends = {Partition("in", 0): 10, Partition("in", 1): 1_000}
    assert beyond({Partition("in", 0): 10, Partition("in", 1): 999}, ends) is None
    assert beyond({Partition("in", 1): 1_001}, ends) == NotPassed(
        reason="in-1 ends at offset 1,000, before the window (1,001): audit a smaller window", is_final=True
    )
    assert beyond({Partition("out", 0): 1}, ends) == NotPassed(
        reason="the pipeline does not read a partition out-0", is_final=True
    )
