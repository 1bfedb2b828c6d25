"""The events of a task, repeated until the server has them."""

from __future__ import annotations

from app.core.wire.heartbeat import EventKind, TaskState
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from tests.workers.reporting.reporter import accepting, heard, reporter_to, wait_for_heartbeat
from workers.loop.control import ProducerIdentity, TaskSnapshot
from workers.reporting import HEARTBEAT_PATH, EventStore, HeartbeatReporter


def test_event_names_the_producer_that_it_is_about(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
    """Its own producer goes before the snapshot's, which may be the one before."""
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
    assert told[:4] == [["one", "two"]] * 4, "repeated until they are accepted"
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
