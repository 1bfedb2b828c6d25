"""A task acts on the order of a drill once, when it was granted, and in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.core.wire.drill import DRILL_PATH, DrillAct, DrillAnswer, DrillOrder
from app.core.wire.heartbeat import DesiredTaskState, HeartbeatAnswer
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from tests.workers.reporting.reporter import reporter_to
from workers.drills.orders import DrillOrders, DrillPlace
from workers.reporting import HEARTBEAT_PATH

PLACE = DrillPlace(run_id="r1", ordinal=0, lease=2, task=1, attempt=3, host="here", pid=7)


def order(act: DrillAct = DrillAct.KILL, *, drill_id: str = "d1", begin_within_s: float = 15.0) -> DrillOrder:
    return DrillOrder(drill_id=drill_id, act=act, for_s=1.0, begin_within_s=begin_within_s)


def _no_pidfd(package: str, resource: str) -> bytes:
    return f"raise SystemExit('no pidfd here')  # in the place of {package}/{resource}".encode()


class Task:
    """Orders of one task, and how often it killed itself."""

    def __init__(
        self, listener: WorkerListener, *, allowed: bool = True, now_s: Callable[[], float] | None = None
    ) -> None:
        self.kills = 0
        options: dict[str, Any] = {} if now_s is None else {"now_s": now_s}
        self.orders = DrillOrders(
            PLACE, allowed=allowed, urls=(listener.url,), token="secret", kill=self._kill, **options
        )

    def _kill(self) -> None:
        self.kills += 1

    def hear(self, said: DrillOrder) -> None:
        thread = self.orders.hear(said)
        if thread is not None:
            thread.join(20)
            assert not thread.is_alive()


def steps(listener: WorkerListener) -> list[str]:
    return [said["step"] for said in listener.received[DRILL_PATH]]


def test_a_granted_order_is_done_once_however_often_it_is_received(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(DRILL_PATH, DrillAnswer(goes_on=True))
    task = Task(worker_listener)
    for _ in range(3):
        task.hear(order())
    assert (task.kills, steps(worker_listener)) == (1, ["claimed"])
    (said,) = worker_listener.received[DRILL_PATH]
    assert (said["run_id"], said["lease"], said["task"], said["attempt"]) == ("r1", 2, 1, 3)


def test_nothing_is_done_without_the_grant(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(DRILL_PATH, DrillAnswer(goes_on=False, reason="the drill was stopped"))
    task = Task(worker_listener)
    task.hear(order())
    task.hear(order(DrillAct.FREEZE, drill_id="d2"))
    assert task.kills == 0
    assert steps(worker_listener) == ["claimed", "claimed"]


def test_nothing_is_done_when_the_answer_to_the_claim_is_lost(worker_listener: WorkerListener) -> None:
    worker_listener.fail_with(DRILL_PATH, 503, times=9)
    task = Task(worker_listener)
    task.hear(order())
    task.hear(order())
    assert (task.kills, steps(worker_listener)) == (0, ["claimed"])


def test_nothing_is_done_when_the_grant_comes_too_late(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(DRILL_PATH, DrillAnswer(goes_on=True))
    times = iter((100.0, 116.0))
    task = Task(worker_listener, now_s=lambda: next(times))
    task.hear(order(begin_within_s=15.0))
    assert task.kills == 0


def test_a_definition_that_allows_no_drills_decides(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(DRILL_PATH, DrillAnswer(goes_on=True))
    task = Task(worker_listener, allowed=False)
    task.hear(order())
    assert (task.kills, steps(worker_listener)) == (0, ["refused"])


def test_without_a_watchdog_nothing_is_claimed(
    worker_listener: WorkerListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.drills.freezing.pkgutil.get_data", _no_pidfd)
    worker_listener.answer_with(DRILL_PATH, DrillAnswer(goes_on=True))
    Task(worker_listener).hear(order(DrillAct.FREEZE))
    assert steps(worker_listener) == ["refused"]
    assert "no pidfd here" in worker_listener.received[DRILL_PATH][0]["message"]


def test_the_answer_to_a_heartbeat_brings_the_order_without_holding_it_up(worker_listener: WorkerListener) -> None:
    heard: list[DrillOrder] = []
    told = threading.Event()
    answer = HeartbeatAnswer(desired=DesiredTaskState.RUN, is_current=True, database_epoch="epoch", drill=order())
    worker_listener.answer_with(HEARTBEAT_PATH, answer)

    def drilled(said: DrillOrder) -> None:
        heard.append(said)
        told.set()

    reporter = reporter_to(worker_listener.url, drilled=drilled)
    reporter.start()
    assert told.wait(5)
    wait_for(lambda: len(worker_listener.received[HEARTBEAT_PATH]) > 2, 5, "heartbeats go on")
    reporter.close()
    assert heard[0] == order()


def test_a_superseded_attempt_is_not_drilled(worker_listener: WorkerListener) -> None:
    heard: list[DrillOrder] = []
    answer = HeartbeatAnswer(desired=DesiredTaskState.DRAIN, is_current=False, database_epoch="epoch", drill=order())
    worker_listener.answer_with(HEARTBEAT_PATH, answer)
    reporter = reporter_to(worker_listener.url, drilled=heard.append)
    reporter.start()
    wait_for(lambda: len(worker_listener.received[HEARTBEAT_PATH]) > 1, 5, "two heartbeats")
    reporter.close()
    assert heard == []
