"""The events that a recorder keeps of a loop's offsets, and the replay of these events."""

from __future__ import annotations

import msgspec

from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    GivenUp,
    PartitionLeaving,
    Positioned,
    RecordedCheckpoint,
    StartReason,
)
from app.core.wire.offset_report import Init
from app.products.offset_log.stretch import OffsetStretch
from app.products.offset_log.verdict import ContradictionKind, OffsetLogStanding
from tests.support.offset_log import EVERYTHING, replayed
from tests.workers.loop.telling.recorded_task import P, Q, Task
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import GROWS_FOR_MS, OffsetRecorder


def test_consecutive_commits_are_one_event_that_grows_also_after_its_report() -> None:
    task = Task()
    task.take(P)
    for offset in range(0, 50, 5):
        task.process(offset, offset + 5)
        task.commit()
    whole = RecordedCheckpoint(
        index=2,
        number=1,
        follows=1,
        begins=None,
        first=0,
        last=49,
        next=50,
        records=50,
        outcome=CheckpointOutcome.COMMITTED,
        checkpoints=10,
        at_ms=7,
        until_ms=7,
    )
    assert task.tell()[P] == (
        Assigned(index=0, number=1, generation=1, at_ms=7),
        Positioned(index=1, number=1, follows=1, offset=0, at_ms=7),
        whole,
    )
    assert task.untold() == {}
    assert not task.recorder.has_news
    task.now_ms = 9
    task.process(50, 55)
    task.commit()
    assert not task.recorder.has_news, "how far it has come can wait"
    grown = msgspec.structs.replace(whole, last=54, next=55, records=55, checkpoints=11, until_ms=9)
    assert task.tell() == {P: (grown,)}


def test_batch_that_outlived_a_rebalance_is_credited_to_the_ownership_it_was_polled_under() -> None:
    """Though it holds records of several partitions, without a first and a last one of each."""
    task = Task()
    task.take(P, Q)
    task.recorder.stands_at({P: 5, Q: 7})
    task.give_up(P, Q)
    task.take(P, Q, generation=2)
    task.recorder.add({P: 5, Q: 7}, records=12)
    task.commit()
    verdicts = replayed([task.recorder.untold(EVERYTHING)])
    assert {name: {one.kind for one in verdicts[name].contradictions} for name in (P, Q)} == {
        P: {ContradictionKind.WITHOUT_OWNERSHIP},
        Q: {ContradictionKind.WITHOUT_OWNERSHIP},
    }


def test_same_batch_read_again_after_a_rebalance_is_the_new_owners() -> None:
    task = Task()
    task.take(P, Q)
    task.recorder.stands_at({P: 5, Q: 7})
    task.give_up(P, Q)
    task.take(P, Q, generation=2)
    task.recorder.stands_at({P: 5, Q: 7})
    task.recorder.add({P: 5, Q: 7}, records=12)
    task.commit()
    assert task.verdict().standing is OffsetLogStanding.CONSISTENT


def test_an_event_covers_no_more_than_its_time() -> None:
    task = Task()
    task.take(P)
    for offset in (0, 5):
        task.process(offset, offset + 5)
        task.commit()
        task.now_ms += GROWS_FOR_MS
    assert [event.index for event in task.untold()[P]] == [0, 1, 2, 3]
    assert task.verdict().standing is OffsetLogStanding.CONSISTENT


def test_open_checkpoint_is_reported_as_open_until_its_end_is_recorded() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    assert [told.is_open for told in task.recorder.untold(EVERYTHING)] == [True]
    task.commit()
    assert [told.is_open for told in task.recorder.untold(EVERYTHING)] == [False]


def test_nothing_is_recorded_where_offsets_may_go_back() -> None:
    recorder = OffsetRecorder(Ownership(), is_on=False)
    recorder.assigned([P], generation=1)
    recorder.positioned(P, 0)
    recorder.stands_at({P: 5})
    recorder.add({P: 5}, records=5, span=(0, 4))
    recorder.ended(CheckpointOutcome.COMMITTED)
    recorder.given_up([P], PartitionLeaving.REVOKED)
    recorder.initialised(Init(1, 1))
    assert (recorder.untold(EVERYTHING), recorder.inits(), recorder.has_news) == ((), (), False)


def test_records_polled_and_never_processed_lie_between_two_checkpoints() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    task.poll(8)
    task.process(8, 12)
    task.commit()
    assert [(one.kind, one.stretch) for one in task.verdict().contradictions] == [
        (ContradictionKind.GAP, OffsetStretch(5, 8))
    ]


def test_records_polled_and_never_processed_are_seen_within_one_checkpoint_too() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.poll(8)
    task.process(8, 12)
    task.commit()
    assert [(one.kind, one.stretch) for one in task.verdict().contradictions] == [
        (ContradictionKind.GAP, OffsetStretch(5, 8))
    ]


def test_markers_that_the_position_passes_between_polls_are_no_gap() -> None:
    """Nothing was delivered: no poll brought records, and the position was not read in between."""
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    task.process(7, 12)
    task.commit()
    verdict = task.verdict()
    assert (verdict.standing, verdict.figures.offsets_without_record) == (OffsetLogStanding.CONSISTENT, 2)


def test_position_that_is_committed_without_records_is_gone_on_from() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    task.recorder.add({P: 7}, records=0)
    task.commit()
    task.process(7, 12)
    task.commit()
    assert task.verdict().standing is OffsetLogStanding.CONSISTENT


def test_abort_rewinds_and_the_next_read_follows_the_committed_offset() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.recorder.ended(CheckpointOutcome.ABORTED)
    task.recorder.positioned(P, 0)
    task.process(0, 7)
    task.commit()
    verdict = task.verdict()
    assert (verdict.standing, verdict.figures.aborted, verdict.figures.records) == (OffsetLogStanding.CONSISTENT, 1, 7)


def test_abort_without_going_back_is_a_gap() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.recorder.ended(CheckpointOutcome.ABORTED)
    task.process(5, 9)
    task.commit()
    assert [(one.kind, one.stretch) for one in task.verdict().contradictions] == [
        (ContradictionKind.GAP, OffsetStretch(0, 5))
    ]


def test_commit_in_a_revoke_is_reported_before_the_revoke_and_under_its_number() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    task.give_up(P)
    assert task.untold()[P][-1] == GivenUp(index=3, number=2, follows=1, how=PartitionLeaving.REVOKED, at_ms=7)
    assert task.verdict().standing is OffsetLogStanding.CONSISTENT


def test_commit_of_records_polled_before_a_loss_is_found() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.give_up(P, how=PartitionLeaving.LOST)
    task.commit()
    assert [one.kind for one in task.verdict().contradictions] == [ContradictionKind.WITHOUT_OWNERSHIP]


def test_group_that_begins_records_where_and_goes_on_under_the_next_number() -> None:
    task = Task()
    task.take(P, committed=None)
    task.recorder.positioned(P, 40, StartReason.NOTHING_COMMITTED)
    task.recorder.add({P: 40}, records=0)
    task.commit()
    task.take(P, committed=40)
    task.process(40, 45)
    task.commit()
    verdict = task.verdict()
    assert (verdict.standing, verdict.figures.records) == (OffsetLogStanding.CONSISTENT, 5)


def test_records_of_several_partitions_in_one_batch_are_not_distinguished() -> None:
    task = Task()
    task.take(P, Q)
    task.recorder.stands_at({P: 5, Q: 9})
    task.recorder.add({P: 5, Q: 9}, records=14, span=(0, 8))
    task.commit()
    last = task.untold()[P][-1]
    assert isinstance(last, RecordedCheckpoint)
    assert (last.first, last.last, last.records) == (None, None, None)
    assert task.verdict().standing is OffsetLogStanding.CONSISTENT


def test_batches_of_one_partition_and_of_several_in_turn_are_one_event_too() -> None:
    """Or what waits would grow with every commit."""
    task = Task()
    task.take(P, Q)
    for offset in range(0, 40, 10):
        task.process(offset, offset + 5)
        task.commit()
        task.recorder.stands_at({P: offset + 10, Q: offset})
        task.recorder.add({P: offset + 10, Q: offset}, records=9, span=(offset + 5, offset - 1))
        task.commit()
    (_assigned, _positioned, whole) = task.untold()[P]
    assert isinstance(whole, RecordedCheckpoint)
    assert (whole.next, whole.records, whole.checkpoints) == (40, None, 8)


def test_generation_of_nobodys_member_is_not_one() -> None:
    task = Task()
    task.take(P, generation=-1, committed=None)
    assert task.untold()[P] == (Assigned(index=0, number=1, generation=None, at_ms=7),)
