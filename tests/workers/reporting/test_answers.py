"""The answers of server and driver to a task, which never waits for them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.core.wire.heartbeat import DesiredTaskState, EventKind, TaskState
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from tests.workers.reporting.reporter import (
    DRAIN,
    PAUSE,
    RUN,
    answer,
    heard,
    reporter_to,
    wait_for_heartbeat,
    wait_until_wanted,
)
from workers.loop.control import TaskSnapshot
from workers.reporting import HEARTBEAT_PATH, HeartbeatReporter

RECORDED = Path(__file__).parents[2] / "core/wire/version_1"


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


def test_an_older_answer_of_the_driver_does_not_undo_the_servers_pause(
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


def test_an_attempt_that_is_not_current_drains_as_superseded(
    reporter: HeartbeatReporter, worker_listener: WorkerListener
) -> None:
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
def test_the_task_continues_after_every_answer_of_the_server(
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


def test_closing_without_a_server_is_bounded() -> None:
    reporter = reporter_to("http://127.0.0.1:9")
    reporter.start()
    reporter.event(EventKind.ERROR, "not received")
    began = time.monotonic()
    reporter.close(timeout_s=1)
    assert time.monotonic() - began < 3
