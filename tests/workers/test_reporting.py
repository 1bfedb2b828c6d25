"""What a task tells the server and hears from it; and that it never waits for anybody."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.wire.heartbeat import (
    Counters,
    DesiredTaskState,
    EventKind,
    HeartbeatAnswer,
    PartitionProgress,
    TaskHeartbeat,
    TaskState,
)
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from workers import reporting
from workers.reporting import HEARTBEAT_PATH, EventStore, HeartbeatReporter, TaskPlace
from workers.server_client import ServerClient
from workers.transactional.control import ProducerIdentity, TaskSnapshot

RECORDED = Path(__file__).parents[1] / "wire/version_1"
PLACE = TaskPlace(
    run_id="r1",
    ordinal=0,
    lease=2,
    task=1,
    attempt=3,
    host="here",
    pid=7,
    transactional_id="fl.t.p.0.1",
    database_epoch="epoch",
)
RUN, PAUSE, DRAIN = DesiredTaskState.RUN, DesiredTaskState.PAUSE, DesiredTaskState.DRAIN


def answer(desired: DesiredTaskState = RUN, *, is_current: bool | None = True, epoch: str = "epoch") -> HeartbeatAnswer:
    return HeartbeatAnswer(desired=desired, is_current=is_current, database_epoch=epoch)


def accepting(said: dict[str, Any]) -> HeartbeatAnswer:
    """Stores every event, as the server does."""
    return msgspec.structs.replace(answer(), accepted_events=tuple(event["event_id"] for event in said["events"]))


def reporter_to(*urls: str, **options: Any) -> HeartbeatReporter:
    return HeartbeatReporter(
        PLACE,
        ServerClient(urls, "token", timeout_s=1),
        ask_client=ServerClient(urls, "token", timeout_s=1),
        interval_s=options.pop("interval_s", 0.05),
        **options,
    )


@pytest.fixture
def reporter(worker_listener: WorkerListener) -> Generator[HeartbeatReporter]:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    made = reporter_to(worker_listener.url)
    yield made
    made.close()


def heard(listener: WorkerListener) -> list[TaskHeartbeat]:
    return [msgspec.convert(said, TaskHeartbeat) for said in list(listener.received[HEARTBEAT_PATH])]


def wait_for_heartbeat(listener: WorkerListener, state: TaskState) -> TaskHeartbeat:
    return wait_for(
        lambda: next((beat for beat in heard(listener) if beat.state is state), None),  # pyright: ignore[reportReturnType]
        5,
        lambda: f"a heartbeat {state}, heard {[beat.state for beat in heard(listener)]}",
    )


def wait_until_wanted(reporter: HeartbeatReporter, desired: DesiredTaskState) -> None:
    wait_for(lambda: reporter.desired() is desired, 5, lambda: f"{desired}; wanted is {reporter.desired()}")


def test_a_heartbeat_says_who_and_how(reporter: HeartbeatReporter, worker_listener: WorkerListener) -> None:
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


def test_a_change_of_state_is_told_before_the_next_second(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    reporter = reporter_to(worker_listener.url, interval_s=3600)
    reporter.start()
    wait_for_heartbeat(worker_listener, TaskState.STARTING)
    reporter.publish(TaskSnapshot(state=TaskState.RUNNING))
    wait_for_heartbeat(worker_listener, TaskState.RUNNING)
    reporter.close()


def test_the_recorded_answer_is_understood(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, (RECORDED / "heartbeat_answer.json").read_bytes())
    reporter = reporter_to(worker_listener.url)
    reporter.start()
    wait_until_wanted(reporter, PAUSE)
    reporter.close()


@pytest.mark.parametrize("first", [RUN, PAUSE])
def test_a_drain_is_final(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, first: DesiredTaskState
) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, answer(first))
    reporter.start()
    wait_until_wanted(reporter, first)
    worker_listener.answer_with(HEARTBEAT_PATH, answer(DRAIN))
    wait_until_wanted(reporter, DRAIN)
    worker_listener.answer_with(HEARTBEAT_PATH, answer(RUN))
    count = len(heard(worker_listener))
    wait_for(lambda: len(heard(worker_listener)) > count + 2, 5, "more heartbeats")
    assert reporter.desired() is DRAIN


def test_an_older_word_of_the_driver_does_not_undo_the_servers_pause(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, answer(PAUSE))
    reporter.start()
    wait_until_wanted(reporter, PAUSE)
    reporter.hear(RUN, is_current_attempt=True)
    assert reporter.desired() is PAUSE
    reporter.hear(PAUSE, is_current_attempt=True)
    reporter.hear(RUN, is_current_attempt=True)
    assert reporter.desired() is RUN, "a change of the driver's word counts"


def test_who_is_not_current_drains_as_superseded(reporter: HeartbeatReporter, worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, answer(RUN, is_current=False))
    reporter.start()
    wait_until_wanted(reporter, DRAIN)
    assert reporter.is_superseded
    reporter.publish(TaskSnapshot(state=TaskState.DRAINED))
    wait_for_heartbeat(worker_listener, TaskState.SUPERSEDED)


def test_a_restored_databases_no_does_not_count(reporter: HeartbeatReporter, worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, answer(RUN, is_current=False, epoch="another"))
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 2, 5, "two heartbeats")
    assert not reporter.is_superseded
    assert reporter.desired() is RUN
    assert reporter.ask_is_current(timeout_s=1) is None


def test_a_later_attempt_that_the_driver_knows_supersedes(reporter: HeartbeatReporter) -> None:
    reporter.hear(RUN, is_current_attempt=False)
    assert reporter.desired() is DRAIN
    assert reporter.ask_is_current(timeout_s=1) is False


@pytest.mark.parametrize("word", [True, False, None])
def test_a_fenced_task_asks_at_once_and_says_so(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, word: bool | None
) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, answer(is_current=word))
    reporter.publish(TaskSnapshot(state=TaskState.FENCED))
    assert reporter.ask_is_current(timeout_s=2) is word
    assert heard(worker_listener)[-1].state is TaskState.FENCED


def test_a_question_to_a_server_that_does_not_answer_is_bounded() -> None:
    reporter = reporter_to("http://127.0.0.1:9", "http://127.0.0.1:10")
    began = time.monotonic()
    assert reporter.ask_is_current(timeout_s=0.5) is None
    assert time.monotonic() - began < 2


def test_without_a_server_there_is_no_answer_and_no_thread() -> None:
    reporter = reporter_to()
    reporter.start()
    reporter.event(EventKind.ERROR, "kept")
    assert reporter.ask_is_current(timeout_s=1) is None
    assert reporter.desired() is RUN
    reporter.close()


@pytest.mark.parametrize("status", [401, 403, 404, 409, 426, 500, 503])
def test_the_task_goes_on_whatever_the_server_answers(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, status: int
) -> None:
    worker_listener.fail_with(HEARTBEAT_PATH, status, times=3)
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 5, 5, "heartbeats after the refusals")
    assert reporter.desired() is RUN


@pytest.mark.parametrize("nonsense", [b"", b"<html>", b"[]", b'{"desired":"fly"}', b'{"protocol_version":9}'])
def test_an_answer_that_is_no_answer_changes_nothing(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, nonsense: bytes
) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, nonsense)
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 2, 5, "heartbeats in spite of the answer")
    assert reporter.desired() is RUN
    assert reporter.ask_is_current(timeout_s=1) is None


def test_event_names_the_producer_that_it_is_about(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
    """Its own word goes before the snapshot's, which may be of the producer before."""
    reporter.publish(TaskSnapshot(state=TaskState.RUNNING, producer_id=7, producer_epoch=1))
    reporter.event(EventKind.LOST, "lost")
    reporter.event(EventKind.FENCED, "fenced", error="_FENCED", producer=ProducerIdentity(7, 2))
    reporter.start()
    wait_for(lambda: heard(worker_listener), 5, "a heartbeat")
    told = [(event.error, event.producer_id, event.producer_epoch) for event in heard(worker_listener)[0].events]
    assert told == [(None, 7, 1), ("_FENCED", 7, 2)]


def test_events_survive_the_servers_absence_and_are_delivered_once(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
    worker_listener.fail_with(HEARTBEAT_PATH, 503, times=3)
    reporter.event(EventKind.REVOKED, "one", partitions=("t-0",), generation=5)
    reporter.event(EventKind.LOST, "two")
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 6, 5, "heartbeats after the refusals")
    told = [[event.message for event in beat.events] for beat in heard(worker_listener)]
    assert told[:4] == [["one", "two"]] * 4, "said until they are accepted"
    assert told[4:6] == [[], []], "and not again"
    event = heard(worker_listener)[0].events[0]
    assert (event.kind, event.partitions, event.generation) == (EventKind.REVOKED, ("t-0",), 5)


def test_words_that_no_server_could_store_do_not_hold_back_the_rest(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
    """An error's text may quote a binary record; JSON refuses a lone surrogate, Postgres a NUL."""
    reporter.publish(TaskSnapshot(state=TaskState.RUNNING, last_error="bad \x00 \udcff byte"))
    reporter.event(EventKind.ERROR, "bad \x00 \udcff byte" + "x" * 10_000)
    reporter.start()
    beat = wait_for_heartbeat(worker_listener, TaskState.RUNNING)
    assert beat.last_error == "bad \ufffd ? byte"
    event = next(event for one in heard(worker_listener) for event in one.events)
    assert event.message.startswith("bad \ufffd ? bytexxx")
    assert len(event.message) == 4_000


def test_a_name_that_is_no_text_does_not_silence_the_task(worker_listener: WorkerListener) -> None:
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
    """Breaks as a bug would, as often as it is told to."""

    broken = 0

    def post(self, *arguments: Any, **options: Any) -> Any:
        if self.broken > 0:
            self.broken -= 1
            raise RuntimeError("can't start new thread")
        return super().post(*arguments, **options)


def test_an_unexpected_error_does_not_end_the_heartbeats_and_is_told_when_they_go_on(
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
        lambda: f"the event; heard {len(heard(worker_listener))} heartbeats",
    )
    (event,) = beats[0].events
    assert event.kind is EventKind.ERROR
    assert event.message.endswith("RuntimeError: can't start new thread")
    reporter.close()


def test_the_last_words_are_delivered_on_close(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    reporter = reporter_to(worker_listener.url, interval_s=3600, events_per_heartbeat=2)
    reporter.start()
    wait_for_heartbeat(worker_listener, TaskState.STARTING)
    for number in range(5):
        reporter.event(EventKind.ABORTED, str(number))
    reporter.publish(TaskSnapshot(state=TaskState.DRAINED))
    reporter.close(timeout_s=5)
    told = [event.message for beat in heard(worker_listener) for event in beat.events]
    assert told == ["0", "1", "2", "3", "4"]
    assert heard(worker_listener)[-1].state is TaskState.DRAINED


def test_closing_without_a_server_is_bounded() -> None:
    reporter = reporter_to("http://127.0.0.1:9")
    reporter.start()
    reporter.event(EventKind.ERROR, "nobody hears")
    began = time.monotonic()
    reporter.close(timeout_s=1)
    assert time.monotonic() - began < 3


def test_the_second_address_is_tried_and_then_kept(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    reporter = reporter_to("http://127.0.0.1:9", worker_listener.url)
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 3, 5, "heartbeats at the second address")
    reporter.close()


def test_the_oldest_events_go_first_and_are_counted(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    reporter = reporter_to(worker_listener.url, events_kept=3)
    for number in range(5):
        reporter.event(EventKind.ERROR, str(number))
    reporter.start()
    beat = wait_for_heartbeat(worker_listener, TaskState.STARTING)
    assert [event.message for event in beat.events] == ["2", "3", "4"]
    assert beat.counters.events_dropped == 2
    reporter.close()


def test_an_empty_store_gives_nothing_and_forgets_the_unknown() -> None:
    store = EventStore(kept=2)
    store.forget(("never seen",))
    assert store.oldest(10) == ()
    assert len(store) == 0


def test_what_an_attempt_did_stands_when_it_fails(reporter: HeartbeatReporter, worker_listener: WorkerListener) -> None:
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


def test_a_loop_that_is_stuck_is_told_once_and_its_transaction_grows_older(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform that never returns: nobody but the heartbeat's thread is left to say so."""
    monkeypatch.setattr(reporting, "SILENT_AFTER_S", 0.2)
    snapshot = TaskSnapshot(state=TaskState.RUNNING, open_transaction_age_ms=5)
    reporter.publish(snapshot)
    reporter.start()
    stuck = wait_for(
        lambda: [beat for beat in heard(worker_listener) if "is stuck" in (beat.last_error or "")][3:],
        5,
        lambda: f"heartbeats of a stuck loop; heard {heard(worker_listener)[-1:]}",
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
        "what was told of it",
    )
    assert "is stuck" in told[0]
    assert told[1] == "the loop turns again"


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.BACKING_OFF, TaskState.DRAINED, TaskState.FAILED])
def test_who_does_not_turn_is_not_stuck(
    reporter: HeartbeatReporter, worker_listener: WorkerListener, monkeypatch: pytest.MonkeyPatch, state: TaskState
) -> None:
    monkeypatch.setattr(reporting, "SILENT_AFTER_S", 0.0)
    reporter.publish(TaskSnapshot(state=state))
    reporter.start()
    wait_for(lambda: len(heard(worker_listener)) >= 3, 5, "three heartbeats")
    assert [(beat.last_error, beat.events) for beat in heard(worker_listener)] == [(None, ())] * len(
        heard(worker_listener)
    )
