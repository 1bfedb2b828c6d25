"""The events that a recorder reports: again until they are stored, and bounded."""

from __future__ import annotations

from app.core.wire.offset_events import (
    CheckpointOutcome,
    RecordedCheckpoint,
)
from tests.support.offset_log import EVERYTHING, replayed
from tests.workers.loop.telling.recorded_task import P, Q, Task
from workers.loop.telling.offset_recorder import GROWS_FOR_MS


def test_an_event_that_grows_on_its_way_is_reported_again() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    on_its_way = task.recorder.untold(EVERYTHING)
    task.process(5, 9)
    task.commit()
    task.recorder.stored(on_its_way)
    (told,) = task.tell()[P]
    assert isinstance(told, RecordedCheckpoint)
    assert (told.index, told.next) == (2, 9)


def test_an_unanswered_report_is_repeated_whole() -> None:
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    task.recorder.untold(EVERYTHING)
    task.give_up(P)
    assert [event.index for event in task.untold()[P]] == [0, 1, 2, 3]


def test_dropped_events_leave_a_gap_and_the_quiet_partition_keeps_its_own() -> None:
    task = Task(kept=10)
    task.take(Q)
    task.take(P)
    for offset in range(0, 40, 5):
        task.process(offset, offset + 5)
        task.recorder.ended(CheckpointOutcome.ABORTED)
        task.recorder.positioned(P, 0)
    told = task.untold()
    assert sum(map(len, told.values())) == 10
    assert [event.index for event in told[Q]] == [0, 1]
    assert told[P][0].index > 0
    assert task.verdict().contradictions == ()


def test_stored_events_are_forgotten_and_later_ones_are_not() -> None:
    task = Task()
    task.take(P)
    task.tell()
    task.process(0, 5)
    task.commit()
    assert [event.index for event in task.untold()[P]] == [2]
    (bounded,) = task.recorder.untold(0)
    assert (bounded.events, bounded.recorded) == ((), 3)


def test_a_grown_event_that_is_dropped_is_a_gap_though_the_server_has_its_older_form() -> None:
    task = Task(kept=3)
    task.take(P)
    task.process(0, 5)
    task.commit()
    stored = task.recorder.untold(EVERYTHING)
    task.recorder.stored(stored)
    task.process(5, 10)
    task.commit()
    task.now_ms += GROWS_FOR_MS
    task.process(10, 15)
    task.commit()
    task.give_up(P)
    assert [event.index for event in task.untold()[P]] == [2, 3, 4]
    task.take(P, generation=2, committed=None)
    later = task.recorder.untold(EVERYTHING)
    assert [event.index for event in later[0].events] == [3, 4, 5], "the one that had grown is dropped"
    assert replayed([[*stored, *later]])[P].contradictions == ()


def test_server_that_lost_how_far_an_event_had_grown_sees_a_hole() -> None:
    """It was restored from a backup: events that had been stored since are not reported again."""
    task = Task()
    task.take(P)
    task.process(0, 5)
    task.commit()
    in_the_backup = task.recorder.untold(EVERYTHING)
    task.process(5, 10)
    task.commit()
    task.now_ms += GROWS_FOR_MS
    task.process(10, 15)
    task.commit()
    task.tell()
    task.recorder.server_forgot()
    task.process(15, 20)
    task.commit()
    again = task.recorder.untold(EVERYTHING)
    assert [event.index for event in again[0].events] == [3]
    assert replayed([[*in_the_backup, *again]])[P].contradictions == ()


def test_server_that_forgot_gets_the_remaining_events_and_the_earlier_number() -> None:
    task = Task()
    task.take(P)
    task.give_up(P)
    task.take(Q)
    task.process(0, 5, Q)
    task.commit()
    task.tell()
    assert not task.recorder.has_news
    task.recorder.server_forgot()
    assert task.recorder.has_news
    again = {told.partition: told for told in task.recorder.untold(EVERYTHING)}
    assert {number: (told.recorded, [event.index for event in told.events]) for number, told in again.items()} == {
        0: (3, []),
        1: (3, [2]),
    }
