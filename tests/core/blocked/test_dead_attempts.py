"""What a driver tells of its own attempts is acted on once, after its time, and only for the producer that they had."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from app.core.blocked import loop as dead_tasks
from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.dead_tasks import DeadEnd, DeadProducer
from app.core.blocked.loop import LOOKED_AFTER_FOR, DeadTasks
from app.core.blocked.service.dead_tasks import Ended
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.launcher import SparkLauncher
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskReport
from app.core.wire.heartbeat import DriverHeartbeat, GoneAttempt, GoneBy
from app.kit.clock import Clock
from tests.support.reports import REPORT
from tests.support.unit_of import UnitOf


class Scene:
    """A lease that lives, with one task; coordinators say what the test has them say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.report = REPORT
        self.answers = [DeadEnd.ENDED]
        self.asked: list[DeadProducer] = []
        monkeypatch.setattr(dead_tasks, "end_what_is_left", self._end)
        self.loop = DeadTasks(
            unit_of_work=lambda: self.unit,
            brokers=cast(TransactionBrokers, None),
            launcher=cast(SparkLauncher, None),
            clock=cast(Clock, SimpleNamespace(now=lambda: self.now)),
            where="w1",
        )
        self.instances = SimpleNamespace(get=self._answer(SimpleNamespace(run_id="r", ordinal=0, lease=1, revision=1)))
        self.instances.ended_since = self._answer([])
        self.runs = SimpleNamespace(get=self._answer(SimpleNamespace(pipeline="flights", cluster="demo")))
        self.unit = UnitOf(
            {
                InstanceStore: self.instances,
                RunStore: self.runs,
                PipelineStore: SimpleNamespace(get_revision=self._answer(SimpleNamespace(definition=None))),
                ClusterStore: SimpleNamespace(get=self._answer(SimpleNamespace(name="demo"))),
                TaskStore: SimpleNamespace(producers_of_lease=self._reports),
            }
        )

    def _answer(self, value: Any) -> Any:
        async def answer(*_: object, **__: object) -> Any:
            return value

        return answer

    async def _reports(self, **_: object) -> list[TaskReport]:
        return [self.report]

    async def _end(self, _: object, __: object, cluster: Cluster, dead: DeadProducer, **___: object) -> Ended:
        self.asked.append(dead)
        return Ended(self.answers[0] if len(self.answers) == 1 else self.answers.pop(0))

    def hear(self, by: GoneBy = GoneBy.WORKER, *, attempt: int = 3) -> None:
        self.loop.hear(
            DriverHeartbeat(
                run_id="r",
                ordinal=0,
                lease=1,
                application_id="app-1",
                host="w1",
                sent_at_ms=1,
                executors=1,
                tasks_running=0,
                tasks_waiting=1,
                gone=(GoneAttempt(task=2, attempt=attempt, by=by),),
            )
        )

    async def turns(self, *after_s: float) -> None:
        for seconds in after_s:
            self.now += timedelta(seconds=seconds)
            await self.loop.turn()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_what_a_worker_that_is_gone_left_open_is_ended_at_once_and_once(scene: Scene) -> None:
    scene.hear()
    await scene.turns(0)
    (dead,) = scene.asked
    assert (dead.transactional_id, dead.producer_id, dead.producer_epoch, dead.attempt) == ("tx", 7, 4, 3)
    assert "by its executor's word" in dead.why
    scene.hear()
    await scene.turns(1, 60)
    assert len(scene.asked) == 1, "its driver repeats it for a minute"


async def test_an_executors_workers_may_live_a_moment_longer_than_it(scene: Scene) -> None:
    scene.hear(GoneBy.EXECUTOR)
    await scene.turns(0, 1.9)
    assert scene.asked == []
    await scene.turns(0.1)
    assert "has exited, by the resource manager's word" in scene.asked[0].why


async def test_where_the_next_attempt_has_a_producer_its_init_has_done_it(scene: Scene) -> None:
    scene.report = replace(REPORT, attempt=4)
    scene.hear()
    await scene.turns(0, 60)
    assert scene.asked == []


async def test_what_nobody_answered_is_tried_again(scene: Scene) -> None:
    scene.answers = [DeadEnd.UNANSWERED, DeadEnd.UNANSWERED, DeadEnd.ENDED]
    scene.hear()
    await scene.turns(0, 0.1, 0.5, 1, 30)
    assert len(scene.asked) == 3


async def test_it_is_forgotten_when_the_coordinator_must_have_ended_it(scene: Scene) -> None:
    scene.answers = [DeadEnd.UNANSWERED]
    scene.hear()
    await scene.turns(0, LOOKED_AFTER_FOR.total_seconds())
    assert len(scene.asked) == 1
