"""The sentence of each finding, and its alternatives."""

from __future__ import annotations

import pytest

from app.core.double_processing.overlap import (
    MARKERS_ONLY,
    NO_TRANSACTIONS,
    OTHER_LOG,
    SET_BACK,
    SHARED_READER,
    Overlap,
    overlaps_of,
)
from app.core.journals.double_processing import (
    CommitWatch,
    DoubleProcessing,
    OverlapGrade,
    OverlapPattern,
    ProducerCommit,
)
from app.core.journals.live_groups import LiveGroup

AT_MS = 1_795_819_439_000
NAMES = {7: "app-1", 8: "app-2"}


def explained(
    pattern: OverlapPattern,
    grade: OverlapGrade,
    *,
    offsets: tuple[int, int],
    first: int,
    second: int,
    producer: int = 8,
    again: int | None = None,
    members: int = 2,
) -> Overlap:
    found = DoubleProcessing(
        pattern=pattern,
        grade=grade,
        topic="orders",
        partition=3,
        from_offset=offsets[0],
        to_offset=offsets[1],
        first=ProducerCommit(first, AT_MS, 40, 7, 0),
        second=ProducerCommit(second, AT_MS + 8_000, 44, producer, 1 if producer >= 0 else -1),
        again=None if again is None else ProducerCommit(again, AT_MS + 9_000, 46, producer, 1),
        members=members,
    )
    (one,) = overlaps_of(LiveGroup("g", partition=5, watch=CommitWatch(findings=(found,))), NAMES)
    return one


@pytest.mark.parametrize(
    ("one", "sentence", "alternatives"),
    [
        (
            explained(
                OverlapPattern.REWOUND, OverlapGrade.PROVED, offsets=(100, 110), first=110, second=100, again=1120
            ),
            (
                "Offsets 100 to 109 of orders-3 were committed by app-1 at 22:43:59 UTC and again by app-2 at "
                "22:44:08 UTC: their outputs are duplicates."
            ),
            (SET_BACK, OTHER_LOG, MARKERS_ONLY),
        ),
        (
            explained(OverlapPattern.REWOUND, OverlapGrade.LIKELY, offsets=(1050, 1100), first=1100, second=1050),
            (
                "app-2 committed offset 1,050 of orders-3 at 22:44:07 UTC, below 1,100, which app-1 had committed at "
                "22:43:59 UTC. Its reader did not begin at the group's offset. A reader that starts there repeats "
                "offsets 1,050 to 1,099."
            ),
            (SET_BACK, OTHER_LOG, MARKERS_ONLY),
        ),
        (
            explained(OverlapPattern.SAME_END, OverlapGrade.LIKELY, offsets=(100, 110), first=110, second=110),
            (
                "app-1 committed offset 110 of orders-3 at 22:43:59 UTC, and app-2 the same at 22:44:07 UTC. "
                "The group of 2 members did not change in between. Both probably processed offsets 100 to 109."
            ),
            (SHARED_READER, MARKERS_ONLY),
        ),
        (
            explained(
                OverlapPattern.SAME_END,
                OverlapGrade.POSSIBLE,
                offsets=(-1, 110),
                first=110,
                second=110,
                producer=9,
                members=0,
            ),
            (
                "app-1 committed offset 110 of orders-3 at 22:43:59 UTC, and producer 9:1 the same at 22:44:07 UTC. "
                "The group has no members, so the journal does not show an owner. Both possibly processed offsets "
                "below 110."
            ),
            (SHARED_READER, MARKERS_ONLY),
        ),
        (
            explained(OverlapPattern.INTERLEAVED, OverlapGrade.POSSIBLE, offsets=(100, 110), first=110, second=120),
            (
                "app-2 committed orders-3 again, up to 120 at 22:44:07 UTC, after app-1 at 22:43:59 UTC. The group "
                "of 2 members did not change in between. Either both own it, or one reader uses both."
            ),
            (SHARED_READER,),
        ),
        (
            explained(
                OverlapPattern.RESET, OverlapGrade.INTENDED, offsets=(109, 110), first=110, second=109, producer=-1
            ),
            (
                "The offset of orders-3 was set back from 110 to 109 at 22:44:07 UTC, without a "
                "producer. Processing offset 109 again is intended."
            ),
            (NO_TRANSACTIONS,),
        ),
    ],
    ids=lambda value: value.pattern + "-" + value.grade if isinstance(value, Overlap) else "",
)
def test_sentence_names_both_commits_and_the_offsets(
    one: Overlap, sentence: str, alternatives: tuple[str, ...]
) -> None:
    assert one.sentence == sentence
    assert one.alternatives == alternatives
    assert one.advice[0].startswith("See the records: fenceline log orders 3 --from ")
    assert ("KIP-447" in " ".join(one.advice)) is one.grade.is_problem
    assert (one.journal_partition, one.journal_offset) == (5, 44)
