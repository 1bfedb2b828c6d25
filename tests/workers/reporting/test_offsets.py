"""The offset events of a task: sent with its heartbeats, until they are stored, within a bound."""

from __future__ import annotations

from typing import Any

import msgspec

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import HeartbeatAnswer, TaskState
from app.core.wire.offset_events import CheckpointOutcome, RecordedCheckpoint
from app.core.wire.offset_report import Init
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from tests.workers.reporting.reporter import answer, heard, reporter_to
from workers.loop.control import TaskSnapshot
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.offset_teller import EVERY_S, OffsetTeller
from workers.reporting import HEARTBEAT_PATH

P = Partition("orders", 0)
STORED = msgspec.structs.replace(answer(), offsets_stored=True, answered_ms=50)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def owner() -> OffsetRecorder:
    ownership = Ownership()
    ownership.assigned([P])
    recorder = OffsetRecorder(ownership)
    recorder.assigned([P], generation=1)
    recorder.begins(P, 0)
    return recorder


def commit(recorder: OffsetRecorder, to: int) -> None:
    recorder.stands_at({P: to})
    recorder.add({P: to}, records=1, span=(to - 1, to - 1))
    recorder.ended(CheckpointOutcome.COMMITTED)


def test_how_far_checkpoints_have_come_waits_and_a_rebalance_does_not() -> None:
    clock, recorder = Clock(), owner()
    teller = OffsetTeller(events_per_heartbeat=100, clock=clock)
    assert teller.report(is_over=False) is None, "nothing is recorded here"
    teller.recorder = recorder
    for to in (1, 2):
        commit(recorder, to)
        teller.answered(teller.report(is_over=False), STORED)
        assert teller.report(is_over=False) is None
    clock.now = EVERY_S
    report = teller.report(is_over=False)
    assert report is not None
    assert report.heard_ms == 50
    commit(recorder, 3)
    clock.now += 0.1
    teller.answered(report, STORED)
    assert teller.report(is_over=False) is None
    recorder.assigned([P], generation=2)
    assert teller.report(is_over=False) is not None


def test_last_heartbeat_reports_all_events_and_the_end() -> None:
    clock, recorder = Clock(), owner()
    teller = OffsetTeller(events_per_heartbeat=100, clock=clock)
    teller.recorder = recorder
    commit(recorder, 1)
    teller.answered(teller.report(is_over=False), STORED)
    commit(recorder, 2)
    report = teller.report(is_over=True)
    assert report is not None
    assert report.is_over
    assert [event.next for event in report.partitions[0].events if isinstance(event, RecordedCheckpoint)] == [2]


def test_server_that_does_not_keep_offsets_is_not_waited_for() -> None:
    teller = OffsetTeller(events_per_heartbeat=100)
    teller.recorder = owner()
    teller.answered(teller.report(is_over=True), answer())
    assert not teller.has_more


def test_offsets_survive_the_servers_absence_and_are_forgotten_when_they_are_stored(
    worker_listener: WorkerListener,
) -> None:
    def storing(_said: dict[str, Any]) -> HeartbeatAnswer:
        return STORED

    worker_listener.answer_with(HEARTBEAT_PATH, storing)
    worker_listener.fail_with(HEARTBEAT_PATH, 503, times=3)
    recorder = owner()
    recorder.initialised(Init(7, 1))
    reporter = reporter_to(worker_listener.url)
    reporter.tell_offsets(recorder)
    reporter.start()
    try:
        wait_for(lambda: len(heard(worker_listener)) >= 5, 5, "heartbeats after the refusals")
        reporter.publish(TaskSnapshot(state=TaskState.DRAINED))
    finally:
        reporter.close()
    told = [beat.offsets for beat in heard(worker_listener)]
    assert [None if one is None else [e.index for e in one.partitions[0].events] for one in told[:5]] == [
        [0, 1],
        [0, 1],
        [0, 1],
        [0, 1],
        None,
    ], "repeated until they are stored, and not again"
    last = told[-1]
    assert last is not None
    assert (last.is_over, last.heard_ms, last.inits[0].epoch) == (True, 50, 1)


def test_server_on_another_database_gets_the_remaining_events_again() -> None:
    teller = OffsetTeller(events_per_heartbeat=100, clock=Clock())
    teller.recorder = owner()
    commit(teller.recorder, 1)
    teller.answered(teller.report(is_over=False), STORED)
    assert teller.report(is_over=False) is None
    teller.answered(None, msgspec.structs.replace(STORED, database_epoch="restored"))
    report = teller.report(is_over=False)
    assert report is not None
    assert (report.partitions[0].recorded, [event.index for event in report.partitions[0].events]) == (3, [2])
    assert report.database_epoch == "restored"


def test_last_report_to_a_replaced_database_is_repeated() -> None:
    teller = OffsetTeller(events_per_heartbeat=100, clock=Clock())
    teller.recorder = owner()
    teller.answered(teller.report(is_over=False), STORED)
    last = teller.report(is_over=True)
    assert last is not None
    assert last.database_epoch == STORED.database_epoch
    teller.answered(last, msgspec.structs.replace(STORED, offsets_stored=False, database_epoch="restored"))
    assert teller.has_more
    again = teller.report(is_over=True)
    assert again is not None
    assert again.partitions[0].recorded == 2
    teller.answered(again, msgspec.structs.replace(STORED, database_epoch="restored"))
    assert not teller.has_more


def test_question_of_the_loop_reports_no_offsets(worker_listener: WorkerListener) -> None:
    """Two threads that report at the same time could make the older report the last one."""
    reporter = reporter_to(worker_listener.url)
    reporter.tell_offsets(owner())
    worker_listener.answer_with(HEARTBEAT_PATH, answer())
    assert reporter.ask_is_current(timeout_s=2) is True
    assert [beat.offsets for beat in heard(worker_listener)] == [None]
