"""A lasting condition is raised and resolved once, by any of the servers."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.core.alerts.conditions import AlertBounds
from app.core.alerts.loop import AlertWatch
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.clocks.broker_clocks import BrokerClocks
from app.core.clocks.clock_offset import ClockOffset
from app.core.hanging import service as hanging
from app.core.hanging.hanging_transaction import HangingEnding, HangingOutcome
from app.core.journals.live_transactions import LiveTransaction
from app.core.lag.service import Lags
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot
from app.core.runs.instance import InstanceState
from app.core.runs.store import tasks
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import PartitionProgress, TaskReport
from app.core.wire.heartbeat import TaskHeartbeat
from tests.core.fencing.coordinator import Coordinator
from tests.support.control_plane import CLUSTER, ControlPlane, driver_heartbeat, task_heartbeat
from tests.support.hanging_samples import hanging_transaction


class Clock:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def now(self):
        return self._plane.now


def watch_of(
    plane: ControlPlane, observations: Observations, lags: Lags | None = None, *, lag_s: tuple[str, ...] = ()
) -> AlertWatch:
    return AlertWatch(
        unit_of_work=plane.database.unit_of_work,
        observations=observations,
        lags=lags or Lags(),
        clock=Clock(plane),
        bounds=AlertBounds(transaction_open=timedelta(seconds=120), observer=timedelta(seconds=60), lag_s=lag_s),
    )


def publish(plane: ControlPlane, observations: Observations, *transactions: LiveTransaction) -> None:
    now_ms = int(plane.now.timestamp() * 1000)
    first, second = (
        JournalStatus(topic=topic, phase=ReadingPhase.LIVE, phase_since_ms=now_ms, as_of_ms=now_ms)
        for topic in JOURNALS
    )
    observations.publish(
        Snapshot(
            cluster=CLUSTER,
            number=now_ms,
            at_ms=now_ms,
            transaction_journal=first,
            group_journal=second,
            transactions={one.transactional_id: one for one in transactions},
            clocks=BrokerClocks(
                {1: ClockOffset(least_ms=0, most_ms=0, measured_ms=now_ms)},
                {(JOURNALS[0], one.partition): 1 for one in transactions},
            ),
        )
    )


async def types(plane: ControlPlane) -> list[str]:
    async with plane.uow() as uow:
        return [one.type for one in reversed((await uow.of(DeliveryStore).list("pager", after=None, limit=100)).items)]


async def with_webhook(plane: ControlPlane) -> None:
    await plane.cluster()
    async with plane.uow() as uow:
        await uow.of(WebhookStore).add(
            Webhook(
                name="pager",
                url="https://hooks.example.com/",
                secrets=("file:pager",),
                created_at=plane.now,
                created_by="anna",
            )
        )
        await uow.commit()


async def test_open_transaction_is_raised_and_resolved_once_also_by_the_next_server(plane: ControlPlane) -> None:
    await with_webhook(plane)
    observations = Observations(is_on=True)
    coordinator = Coordinator(now_ms=int(plane.now.timestamp() * 1000))
    coordinator.begin()
    plane.pass_time(100)
    for _ in range(2):
        publish(plane, observations, coordinator.live)
        await watch_of(plane, observations).turn()
    assert await types(plane) == ["transaction_open.raised"]
    coordinator.commit()
    for _ in range(2):
        publish(plane, observations, coordinator.live)
        await watch_of(plane, observations).turn()
    assert await types(plane) == ["transaction_open.raised", "transaction_open.resolved"]


async def test_blindness_is_raised_after_a_while_and_keeps_what_was_raised(plane: ControlPlane) -> None:
    await with_webhook(plane)
    observations = Observations(is_on=True)
    coordinator = Coordinator(now_ms=int(plane.now.timestamp() * 1000))
    coordinator.begin()
    plane.pass_time(100)
    publish(plane, observations, coordinator.live)
    watch = watch_of(plane, observations)
    await watch.turn()
    # Nothing is published any more: what it knows grows old.
    plane.pass_time(61)
    await watch.turn()
    await watch.turn()
    assert await types(plane) == ["transaction_open.raised", "observer_behind.raised", "observer_behind.raised"]


async def test_journal_that_was_not_seen_and_is_then_behind_is_left_open(plane: ControlPlane) -> None:
    """Both are about one subject, whose incident the receiver closes with the resolved alert."""
    await with_webhook(plane)
    observations = Observations(is_on=True)
    watch = watch_of(plane, observations)
    now_ms = int(plane.now.timestamp() * 1000)
    _, groups = (
        JournalStatus(topic=topic, phase=ReadingPhase.LIVE, phase_since_ms=now_ms, as_of_ms=now_ms)
        for topic in JOURNALS
    )
    for phase in (ReadingPhase.LOST, ReadingPhase.CATCHING_UP):
        unseen = JournalStatus(
            topic=JOURNALS[0], phase=phase, phase_since_ms=now_ms - 61_000, as_of_ms=now_ms - 61_000, lag_records=9
        )
        observations.publish(
            Snapshot(cluster=CLUSTER, number=1, at_ms=now_ms, transaction_journal=unseen, group_journal=groups)
        )
        await watch.turn()
    assert await types(plane) == ["observer_blind.raised", "observer_blind.resolved", "observer_behind.raised"]


async def test_hanging_transaction_is_raised_when_found_and_resolved_when_ended(plane: ControlPlane) -> None:
    await with_webhook(plane)
    for _ in range(2):
        async with plane.uow() as uow:
            await hanging.record_found(uow, [hanging_transaction()], now=plane.now)
            await uow.commit()
    assert await types(plane) == ["transaction_hanging.raised"]
    ended = HangingOutcome(
        transaction=hanging_transaction(), ending=HangingEnding.ABORTED, at_ms=int(plane.now.timestamp() * 1000)
    )
    for _ in range(2):
        async with plane.uow() as uow:
            await hanging.record_ended(uow, [ended], now=plane.now)
            await uow.commit()
    assert await types(plane) == ["transaction_hanging.raised", "transaction_hanging.resolved"]


async def test_crash_loop_is_raised_once_and_resolved_when_it_is_over(plane: ControlPlane) -> None:
    await with_webhook(plane)
    run = await plane.running()
    watch = watch_of(plane, Observations(is_on=True))
    for crashing in (0, 2, 2, 0, 0):
        await plane.drive(driver_heartbeat(run.id, tasks_crashing=crashing))
        await watch.turn()
    assert await types(plane) == ["crash_looping.raised", "crash_looping.resolved"]


PARTITIONS = tuple(PartitionProgress(topic="in", partition=number) for number in range(3))


def beat(run_id: str, sequence: int, not_progressing_ms: int | None) -> TaskHeartbeat:
    sent = task_heartbeat(run_id, sequence=sequence)
    return msgspec.structs.replace(sent, not_progressing_ms=not_progressing_ms, last_error="broker 1 is slow")


async def test_pipeline_that_commits_nothing_is_raised_once_and_resolved_when_it_does(plane: ControlPlane) -> None:
    await with_webhook(plane)
    run = await plane.running()
    watch = watch_of(plane, Observations(is_on=True))
    for sequence, still_ms in enumerate((None, 31_000, 32_000, None, None), start=10):
        await plane.beat(beat(run.id, sequence, still_ms))
        await watch.turn()
    assert await types(plane) == ["not_progressing.raised", "not_progressing.resolved"]
    async with plane.uow() as uow:
        raised = (await uow.of(DeliveryStore).list("pager", after=None, limit=100)).items[-1]
    assert "is not progressing: task 0.0 has committed nothing for 31 s: broker 1 is slow" in raised.sentence


async def test_reports_of_tasks_that_progress_are_not_read(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of partitions every five seconds, to find one number, would block the event loop."""
    run = await plane.running()
    read: list[TaskReport] = []

    def convert(value: Any, kind: Any) -> Any:
        found = msgspec.convert(value, kind)
        if kind is TaskReport:
            read.append(found)
        return found

    monkeypatch.setattr(tasks, "msgspec", SimpleNamespace(convert=convert, to_builtins=msgspec.to_builtins))
    watch = watch_of(plane, Observations(is_on=True))
    for sequence, still_ms, reports in ((10, None, 0), (11, 31_000, 1), (12, None, 0)):
        await plane.beat(msgspec.structs.replace(beat(run.id, sequence, still_ms), partitions=PARTITIONS))
        read.clear()
        await watch.turn()
        assert len(read) == reports
        assert all(one.partitions == () for one in read)


async def test_newest_attempt_decides_whether_a_task_progresses(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(beat(run.id, 10, 31_000))
    newer = msgspec.structs.replace(beat(run.id, 1, None), attempt=1)
    async with plane.uow() as uow:
        assert [one.last.attempt for one in await uow.of(TaskStore).list_not_progressing([run.id])] == [0]
        assert await uow.of(TaskStore).list_not_progressing([]) == []
    await plane.beat(newer)
    async with plane.uow() as uow:
        assert await uow.of(TaskStore).list_not_progressing([run.id]) == []


async def test_not_progressing_is_resolved_when_its_instance_has_ended(plane: ControlPlane) -> None:
    await with_webhook(plane)
    run = await plane.running()
    watch = watch_of(plane, Observations(is_on=True))
    await plane.beat(beat(run.id, 10, 31_000))
    await watch.turn()
    await plane.move(run.id, 0, InstanceState.FAILED)
    await watch.turn()
    assert await types(plane) == ["not_progressing.raised", "not_progressing.resolved"]
