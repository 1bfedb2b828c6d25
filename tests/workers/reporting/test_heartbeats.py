"""The heartbeats of a task to the server, which never delay it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.wire.heartbeat import Counters, EventKind, PartitionProgress, TaskHeartbeat, TaskState
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from tests.workers.reporting.reporter import PLACE, accepting, heard, reporter_to, wait_for_heartbeat
from workers import reporting
from workers.loop.control import TaskSnapshot
from workers.reporting import HEARTBEAT_PATH, HeartbeatReporter
from workers.server_client import ServerClient


def test_a_heartbeat_has_the_place_and_the_state_of_the_task(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
    reporter.publish(TaskSnapshot(state=TaskState.RUNNING, generation=4, counters=Counters(records_in=9)))
    reporter.start()
    beat = wait_for_heartbeat(worker_listener, TaskState.RUNNING)
    assert (beat.run_id, beat.ordinal, beat.lease, beat.task, beat.attempt) == ("r1", 0, 2, 1, 3)
    assert (beat.host, beat.pid, beat.transactional_id) == ("here", 7, "fl.t.p.0.1")
    assert (beat.generation, beat.counters.records_in) == (4, 9)
    assert worker_listener.authorizations[0] == "Bearer token"


def test_sequence_numbers_rise_by_one(reporter: HeartbeatReporter, worker_listener: WorkerListener) -> None:
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 3, 5, "three heartbeats")
    assert [beat.sequence for beat in heard(worker_listener)][:3] == [1, 2, 3]


def test_a_change_of_state_is_reported_before_the_next_second(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    reporter = reporter_to(worker_listener.url, interval_s=3600)
    reporter.start()
    wait_for_heartbeat(worker_listener, TaskState.STARTING)
    reporter.publish(TaskSnapshot(state=TaskState.RUNNING))
    wait_for_heartbeat(worker_listener, TaskState.RUNNING)
    reporter.close()


def test_a_name_that_is_no_text_does_not_end_the_heartbeats(worker_listener: WorkerListener) -> None:
    """A host's name comes from the kernel as bytes, a topic's from a broker."""
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    client = ServerClient([worker_listener.url], "token", timeout_s=1)
    place = msgspec.structs.replace(PLACE, host="b\udcfcro")
    reporter = HeartbeatReporter(place, client, ask_client=client, interval_s=0.05)
    reporter.event(EventKind.LOST, "gone", partitions=("t\x00-0",))
    reporter.start()
    beat = wait_for_heartbeat(worker_listener, TaskState.STARTING)
    assert (beat.host, beat.events[0].partitions) == ("b?ro", ("t\ufffd-0",))
    reporter.close()


class _BreakingClient(ServerClient):
    """Breaks as a bug would, as often as configured."""

    broken = 0

    def post(self, *arguments: Any, **options: Any) -> Any:
        if self.broken > 0:
            self.broken -= 1
            raise RuntimeError("can't start new thread")
        return super().post(*arguments, **options)


def test_an_unexpected_error_does_not_end_the_heartbeats_and_is_reported_later(
    worker_listener: WorkerListener,
) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    client = _BreakingClient([worker_listener.url], "token", timeout_s=1)
    client.broken = 3
    reporter = HeartbeatReporter(PLACE, client, ask_client=client, interval_s=0.05)
    reporter.start()
    beats = wait_for(
        lambda: [beat for beat in heard(worker_listener) if beat.events],
        10,
        lambda: f"the event; received {len(heard(worker_listener))} heartbeats",
    )
    (event,) = beats[0].events
    assert event.kind is EventKind.ERROR
    assert event.message.endswith("RuntimeError: can't start new thread")
    reporter.close()


def test_the_second_address_is_tried_and_then_kept(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    reporter = reporter_to("http://127.0.0.1:9", worker_listener.url)
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 3, 5, "heartbeats at the second address")
    reporter.close()


def test_the_counts_of_a_failed_attempt_stay(reporter: HeartbeatReporter, worker_listener: WorkerListener) -> None:
    """Each attempt has one row at the server, and its last heartbeat is what is counted."""
    done = Counters(records_in=9, transactions_committed=3)
    held = (PartitionProgress(topic="t", partition=0),)
    reporter.publish(
        TaskSnapshot(state=TaskState.RUNNING, counters=done, partitions=held, open_transaction_age_ms=5, generation=4)
    )
    reporter.start()
    wait_for_heartbeat(worker_listener, TaskState.RUNNING)
    reporter.failed("ArithmeticError: in the middle")
    beat = wait_for_heartbeat(worker_listener, TaskState.FAILED)
    assert (beat.counters.records_in, beat.counters.transactions_committed) == (9, 3)
    assert (beat.partitions, beat.open_transaction_age_ms) == ((), None)
    assert beat.last_error == "ArithmeticError: in the middle"
    assert [event.message for one in heard(worker_listener) for event in one.events][-1] == beat.last_error


def test_a_stuck_loop_is_reported_once_and_its_transaction_grows_older(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform that never returns: only the heartbeat's thread can report it."""
    monkeypatch.setattr(reporting, "SILENT_AFTER_S", 0.2)
    snapshot = TaskSnapshot(state=TaskState.RUNNING, open_transaction_age_ms=5)
    reporter.publish(snapshot)
    reporter.start()
    stuck = wait_for(
        lambda: [beat for beat in heard(worker_listener) if "is stuck" in (beat.last_error or "")][3:],
        5,
        lambda: f"heartbeats of a stuck loop; received {heard(worker_listener)[-1:]}",
    )
    ages = [beat.open_transaction_age_ms or 0 for beat in stuck]
    assert ages == sorted(set(ages))
    assert ages[0] >= 205

    def gone_on() -> list[TaskHeartbeat]:
        reporter.publish(snapshot)
        return [beat for beat in heard(worker_listener) if beat.sequence > stuck[-1].sequence and not beat.last_error]

    (beat, *_) = wait_for(gone_on, 5, "a heartbeat of a loop that turns")
    assert beat.open_transaction_age_ms == 5
    told = wait_for(
        lambda: [event.message for beat in heard(worker_listener) for event in beat.events if gone_on()][:2],
        5,
        "the report of it",
    )
    assert "is stuck" in told[0]
    assert told[1] == "the loop turns again"


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.BACKING_OFF, TaskState.DRAINED, TaskState.FAILED])
def test_a_loop_that_should_not_turn_is_not_stuck(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, monkeypatch: pytest.MonkeyPatch, state: TaskState
) -> None:
    monkeypatch.setattr(reporting, "SILENT_AFTER_S", 0.0)
    reporter.publish(TaskSnapshot(state=state))
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 3, 5, "three heartbeats")
    assert [(beat.last_error, beat.events) for beat in heard(worker_listener)] == [(None, ())] * len(
        heard(worker_listener)
    )
