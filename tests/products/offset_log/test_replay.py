"""Each contradiction, and each case that is none, from handmade events."""

from __future__ import annotations

import msgspec
import pytest

from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    Event,
    GivenUp,
    PartitionLeaving,
    Positioned,
    RecordedCheckpoint,
    StartReason,
    Teller,
    Telling,
)
from app.products.offset_log.replay import replay
from app.products.offset_log.silence import Age, Silent
from app.products.offset_log.stretch import OffsetStretch
from app.products.offset_log.verdict import ContradictionKind, Figures, OffsetLogStanding, OffsetLogVerdict

FIRST = Teller(run=1, ordinal=0, task=0, lease=1, attempt=0)
SECOND = Teller(run=1, ordinal=1, task=0, lease=1, attempt=0)


def telling(*events: Event, teller: Teller = FIRST, is_final: bool = True, life: int = 0) -> Telling:
    numbered = tuple(msgspec.structs.replace(event, index=index) for index, event in enumerate(events))
    return Telling(teller=teller, events=numbered, recorded=len(numbered), is_final=is_final, life=life)


def assigned(generation: int | None = 1, number: int = 1) -> Assigned:
    return Assigned(index=0, number=number, generation=generation)


def at(offset: int, number: int = 1) -> Positioned:
    return Positioned(index=0, number=number, offset=offset)


def given_up(number: int = 2, how: PartitionLeaving = PartitionLeaving.REVOKED) -> GivenUp:
    return GivenUp(index=0, number=number, how=how)


def checkpoint(
    begins: int, following: int, outcome: CheckpointOutcome = CheckpointOutcome.COMMITTED, number: int = 1
) -> RecordedCheckpoint:
    return RecordedCheckpoint(
        index=0,
        number=number,
        begins=begins,
        first=begins,
        last=following - 1,
        next=following,
        records=following - begins,
        outcome=outcome,
    )


def found(verdict: OffsetLogVerdict) -> list[tuple[ContradictionKind, OffsetStretch]]:
    return [(one.kind, one.stretch) for one in verdict.contradictions]


def test_consecutive_owners_are_consistent() -> None:
    verdict = replay(
        [
            telling(assigned(2), at(10), checkpoint(10, 20), teller=SECOND),
            telling(assigned(1), at(0), checkpoint(0, 10), given_up()),
        ]
    )
    assert (verdict.standing, found(verdict)) == (OffsetLogStanding.CONSISTENT, [])
    assert verdict.figures == Figures(records=20, committed=2)


def test_gap_between_owners_with_all_events_is_a_contradiction() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    second = telling(assigned(2), at(15), checkpoint(15, 20), teller=SECOND)
    verdict = replay([first, second])
    assert found(verdict) == [(ContradictionKind.GAP, OffsetStretch(10, 15))]
    assert verdict.contradictions[0].message == "offsets 10 to 14 were not committed, but later ones were"


def test_gap_is_found_before_the_next_owner_commits() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    assert found(replay([first, telling(assigned(2), at(15), teller=SECOND)])) == [
        (ContradictionKind.GAP, OffsetStretch(10, 15))
    ]


def test_gap_that_a_dead_attempt_may_have_filled_cannot_be_verified() -> None:
    dead = telling(assigned(1), at(0), checkpoint(0, 10), is_final=False)
    verdict = replay([dead, telling(assigned(2), at(15), teller=SECOND)])
    assert (verdict.standing, found(verdict)) == (OffsetLogStanding.CANNOT_TELL, [])
    assert [(doubt.kind, doubt.stretch) for doubt in verdict.doubts] == [(ContradictionKind.GAP, OffsetStretch(10, 15))]


def test_gap_before_the_start_of_a_dead_attempt_is_a_contradiction() -> None:
    """It began after the gap, and committed offsets only grow."""
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    dead = telling(assigned(2), at(15), checkpoint(15, 20), teller=SECOND, is_final=False)
    assert found(replay([first, dead])) == [(ContradictionKind.GAP, OffsetStretch(10, 15))]


def test_events_dropped_in_the_middle_make_only_that_range_unverifiable() -> None:
    whole = telling(assigned(), at(0), checkpoint(0, 10), checkpoint(10, 20), checkpoint(25, 30))
    holed = msgspec.structs.replace(whole, events=(*whole.events[:3], *whole.events[4:]))
    assert found(replay([whole])) == [(ContradictionKind.GAP, OffsetStretch(20, 25))]
    assert [(doubt.kind, doubt.stretch) for doubt in replay([holed]).doubts] == [
        (ContradictionKind.GAP, OffsetStretch(10, 25))
    ]


def test_events_dropped_at_the_end_are_known_by_their_count() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    second = telling(assigned(2), at(15), teller=SECOND)
    dropped = msgspec.structs.replace(first, events=first.events[:3])
    assert found(replay([first, second])) == [(ContradictionKind.GAP, OffsetStretch(10, 15))]
    assert found(replay([dropped, second])) == []


def test_attempt_without_a_report_makes_a_gap_unverifiable_with_the_reason() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    verdict = replay([first, telling(assigned(2), at(15), teller=SECOND)], unheard=["no attempt reported epoch 5"])
    assert found(verdict) == []
    assert "no attempt reported epoch 5" in verdict.doubts[0].message


@pytest.mark.parametrize(
    ("since", "until", "is_doubted"),
    [
        (None, None, True),
        ((1, 1), None, True),
        ((1, 1), (1, 2), True),
        # It reported in the generation of the owner after the gap.
        ((1, 3), None, False),
        # Its successor had its id while the owner before the gap had the partition.
        ((1, 0), (1, 1), False),
        ((0, 9), (1, 2), True),
    ],
)
def test_gap_cannot_be_verified_where_an_attempt_without_a_report_may_have_been_the_owner(
    since: Age | None, until: Age | None, is_doubted: bool
) -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    both = [first, telling(assigned(3), at(15), teller=SECOND)]
    silent = Silent(Teller(run=1, ordinal=2, task=0, lease=1, attempt=0), 0, since, until)
    verdict = replay(both, silent=[silent])
    assert verdict.standing is (OffsetLogStanding.CANNOT_TELL if is_doubted else OffsetLogStanding.CONTRADICTED)
    assert replay(both, silent=[silent._replace(life=1)]).standing is OffsetLogStanding.CONTRADICTED, "of another life"


def test_attempt_without_a_report_does_not_excuse_an_overlap() -> None:
    silent = Silent(Teller(run=1, ordinal=2, task=0, lease=1, attempt=0), 0, None, None)
    first = telling(assigned(1), at(0), checkpoint(0, 12), given_up())
    second = telling(assigned(3), at(10), checkpoint(10, 20), teller=SECOND)
    assert ContradictionKind.OVERLAP in {kind for kind, _ in found(replay([first, second], silent=[silent]))}


def test_gap_within_one_ownership_is_a_contradiction() -> None:
    """No other attempt can commit a partition that is owned under one number, also if events are missing."""
    verdict = replay(
        [telling(assigned(), at(0), checkpoint(0, 10), checkpoint(12, 20), is_final=False)], unheard=["somebody"]
    )
    assert found(verdict) == [(ContradictionKind.GAP, OffsetStretch(10, 12))]


def test_offsets_committed_by_two_attempts_are_an_overlap_that_names_both() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 12), given_up())
    second = telling(assigned(2), at(10), checkpoint(10, 20), teller=SECOND)
    verdict = replay([first, second])
    assert found(verdict) == [(ContradictionKind.OVERLAP, OffsetStretch(10, 12))]
    assert verdict.contradictions[0].tellers == (FIRST, SECOND)


def test_overlap_is_found_in_the_same_generation_and_in_an_unknown_one() -> None:
    first = telling(assigned(None), at(0), checkpoint(0, 12), given_up())
    second = telling(assigned(2), at(10), checkpoint(10, 20), teller=SECOND)
    assert found(replay([first, second])) == [(ContradictionKind.OVERLAP, OffsetStretch(10, 12))]


def test_owner_that_begins_before_committed_offsets_is_found_before_it_commits() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 12), given_up())
    assert found(replay([first, telling(assigned(2), at(10), teller=SECOND)])) == [
        (ContradictionKind.REWOUND, OffsetStretch(10, 12))
    ]


def test_commit_after_a_loss_is_without_ownership() -> None:
    verdict = replay([telling(assigned(), at(0), given_up(how=PartitionLeaving.LOST), checkpoint(0, 5))])
    assert found(verdict) == [(ContradictionKind.WITHOUT_OWNERSHIP, OffsetStretch(0, 5))]


def test_commit_of_records_polled_before_a_loss_and_regain_is_without_ownership() -> None:
    events = (assigned(), at(0), given_up(), assigned(2, number=3), at(0, number=3), checkpoint(0, 5, number=1))
    assert found(replay([telling(*events)])) == [(ContradictionKind.WITHOUT_OWNERSHIP, OffsetStretch(0, 5))]


def test_aborted_checkpoint_that_is_repeated_is_no_contradiction() -> None:
    verdict = replay(
        [telling(assigned(), at(0), checkpoint(0, 10, CheckpointOutcome.ABORTED), at(0), checkpoint(0, 12))]
    )
    assert (verdict.standing, verdict.figures.aborted) == (OffsetLogStanding.CONSISTENT, 1)


def test_checkpoint_of_unknown_outcome_may_have_been_committed_or_not() -> None:
    for lands_at in (0, 10):
        verdict = replay(
            [
                telling(
                    assigned(),
                    at(0),
                    checkpoint(0, 10, CheckpointOutcome.UNKNOWN),
                    at(lands_at),
                    checkpoint(lands_at, 15),
                )
            ]
        )
        assert verdict.standing is OffsetLogStanding.CONSISTENT, lands_at


def test_reading_on_after_an_unknown_outcome_is_a_gap() -> None:
    verdict = replay([telling(assigned(), at(0), checkpoint(0, 10, CheckpointOutcome.UNKNOWN), checkpoint(10, 15))])
    assert found(verdict) == [(ContradictionKind.GAP, OffsetStretch(0, 10))]


def test_offsets_without_a_record_are_counted_and_are_no_gap() -> None:
    """One marker before the first record, one between two, one after the last."""
    sparse = msgspec.structs.replace(checkpoint(0, 10), first=1, last=8, records=7)
    verdict = replay([telling(assigned(), at(0), sparse)])
    assert (verdict.standing, verdict.figures.offsets_without_record) == (OffsetLogStanding.CONSISTENT, 3)


def test_unknown_start_of_a_checkpoint_is_no_gap() -> None:
    """The client begins at the committed offset, and its position is not known before the first record."""
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    vague = msgspec.structs.replace(checkpoint(12, 20), begins=None)
    assert found(replay([first, telling(assigned(2), at(10), vague, teller=SECOND)])) == []
    verdict = replay([first, telling(assigned(2), vague, teller=SECOND)])
    assert (verdict.standing, found(verdict)) == (OffsetLogStanding.CANNOT_TELL, [])


def test_checkpoint_without_counted_records_is_not_judged_by_them() -> None:
    blank = msgspec.structs.replace(checkpoint(0, 10), first=None, last=None, records=None)
    verdict = replay([telling(assigned(), at(0), blank)])
    assert verdict.standing is OffsetLogStanding.CONSISTENT
    assert verdict.figures == Figures(committed=1)


def test_checkpoint_with_more_records_than_offsets_is_an_overlap() -> None:
    twice = msgspec.structs.replace(checkpoint(0, 10), records=11)
    assert found(replay([telling(assigned(), at(0), twice)])) == [(ContradictionKind.OVERLAP, OffsetStretch(0, 10))]


def test_processed_record_after_the_committed_offset_is_an_overlap() -> None:
    ahead = msgspec.structs.replace(checkpoint(0, 10), last=10)
    assert (ContradictionKind.OVERLAP, OffsetStretch(10, 11)) in found(replay([telling(assigned(), at(0), ahead)]))


def test_records_deleted_unread_by_retention_are_no_gap() -> None:
    gone = Positioned(index=0, number=1, offset=15, found=StartReason.GONE_UNREAD, gone_from=10)
    verdict = replay([telling(assigned(), at(0), checkpoint(0, 10), gone, checkpoint(15, 20))])
    assert verdict.standing is OffsetLogStanding.CONSISTENT


def test_offset_reset_begins_another_life() -> None:
    first = telling(assigned(1), at(0), checkpoint(0, 10), given_up())
    second = telling(assigned(2), at(3), checkpoint(3, 20), teller=SECOND, life=1)
    assert replay([first, second]).standing is OffsetLogStanding.CONSISTENT


def test_offsets_before_and_after_their_loss_are_not_compared_and_reported_as_such() -> None:
    first = telling(assigned(4), at(0), checkpoint(0, 10), given_up())
    start = Positioned(index=0, number=1, offset=3, found=StartReason.NOTHING_COMMITTED)
    verdict = replay([first, telling(assigned(9), start, checkpoint(3, 20), teller=SECOND)])
    assert (verdict.standing, found(verdict)) == (OffsetLogStanding.CANNOT_TELL, [])
    assert "generation 9" in verdict.doubts[0].message


def test_event_that_is_delivered_twice_counts_once() -> None:
    once = telling(assigned(), at(0), checkpoint(0, 10))
    twice = msgspec.structs.replace(once, events=once.events + once.events)
    assert replay([twice]) == replay([once])
