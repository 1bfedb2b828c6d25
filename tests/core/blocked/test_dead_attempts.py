"""A driver's report of dead attempts is acted on once, after the delay, and only for their last producer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.dead_tasks import DeadEnd, DeadProducer, DeadTask
from app.core.blocked.loops import dead_tasks
from app.core.blocked.loops.dead_tasks import LOOKED_AFTER_FOR, DeadTasks
from app.core.blocked.service.dead_tasks import EndedDeadTask
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.launcher import SparkLauncher
from app.core.runs.observation import ReportedProcess
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskReport
from app.core.wire.heartbeat import DriverHeartbeat, GoneAttempt, GoneBy
from app.kit.clock import Clock
from tests.support.reports import REPORT
from tests.support.unit_of import UnitOf

DEFINITION = SimpleNamespace(group_id="g")
PROCESS = ReportedProcess(
    run_id="r",
    ordinal=0,
    lease=1,
    task=2,
    attempt=3,
    pid=4711,
    sent_at_ms=1,
    application_id="app-1",
    log_path=None,
)


class Scene:
    """A live lease with one task; the test sets the coordinators' answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.report = REPORT
        self.answers = [DeadEnd.ENDED]
        self.asked: list[DeadTask] = []
        self.ended: list[ReportedProcess] = []
        monkeypatch.setattr(dead_tasks, "end_what_is_left", self._end)
        self.loop = DeadTasks(
            unit_of_work=lambda: self.unit,
            brokers=cast(TransactionBrokers, None),
            launcher=cast(SparkLauncher, SimpleNamespace(ended_tasks=self._ended_tasks)),
            clock=cast(Clock, SimpleNamespace(now=lambda: self.now)),
            host="w1",
            where="w1",
        )
        self.instances = SimpleNamespace(get=self._answer(SimpleNamespace(run_id="r", ordinal=0, lease=1, revision=1)))
        self.instances.ended_since = self._answer([])
        self.runs = SimpleNamespace(get=self._answer(SimpleNamespace(pipeline="flights", cluster="demo")))
        self.unit = UnitOf(
            {
                InstanceStore: self.instances,
                RunStore: self.runs,
                PipelineStore: SimpleNamespace(get_revision=self._answer(SimpleNamespace(definition=DEFINITION))),
                ClusterStore: SimpleNamespace(get=self._answer(SimpleNamespace(name="demo"))),
                TaskStore: SimpleNamespace(report_of_attempt=self._report, processes_on=self._answer([])),
            }
        )

    def _answer(self, value: Any) -> Any:
        async def answer(*_: object, **__: object) -> Any:
            return value

        return answer

    async def _report(self, *, task: int, attempt: int, **_: object) -> TaskReport | None:
        return self.report if (task, attempt) == (self.report.task, self.report.attempt) else None

    async def _ended_tasks(self, _: object) -> list[ReportedProcess]:
        ended, self.ended = self.ended, []
        return ended

    async def _end(self, _: object, __: object, cluster: Cluster, dead: DeadTask, **___: object) -> EndedDeadTask:
        self.asked.append(dead)
        return EndedDeadTask(self.answers[0] if len(self.answers) == 1 else self.answers.pop(0))

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


async def test_open_transaction_of_a_dead_worker_is_ended_at_once_and_only_once(scene: Scene) -> None:
    scene.hear()
    await scene.turns(0)
    (dead,) = scene.asked
    assert dead.producer == DeadProducer(transactional_id="tx", producer_id=7, producer_epoch=4)
    assert (dead.attempt, dead.group, dead.member_id) == (3, "g", "member")
    assert "its executor reports" in dead.why
    scene.hear()
    await scene.turns(1, 60)
    assert len(scene.asked) == 1, "its driver repeats it for a minute"


async def test_workers_of_an_ended_executor_get_two_seconds(scene: Scene) -> None:
    scene.hear(GoneBy.EXECUTOR)
    await scene.turns(0, 1.9)
    assert scene.asked == []
    await scene.turns(0.1)
    assert "the cluster manager reports that its executor's process has exited" in scene.asked[0].why


async def test_end_of_its_own_process_does_not_wait_for_its_executor(scene: Scene) -> None:
    scene.hear(GoneBy.EXECUTOR)
    scene.ended = [PROCESS]
    await scene.turns(0)
    assert [one.why for one in scene.asked] == ["its own process on this host has ended"]
    await scene.turns(2, 60)
    assert len(scene.asked) == 1


async def test_end_of_its_own_process_repeats_nothing_that_was_done(scene: Scene) -> None:
    scene.hear(GoneBy.WORKER)
    await scene.turns(0)
    scene.ended = [PROCESS]
    await scene.turns(1)
    assert len(scene.asked) == 1


async def test_attempt_without_a_report_left_nothing(scene: Scene) -> None:
    scene.report = replace(REPORT, attempt=4)
    scene.hear()
    await scene.turns(0, 60)
    assert scene.asked == []


async def test_end_without_an_answer_is_repeated(scene: Scene) -> None:
    scene.answers = [DeadEnd.UNANSWERED, DeadEnd.UNANSWERED, DeadEnd.ENDED]
    scene.hear()
    await scene.turns(0, 0.1, 0.5, 1, 30)
    assert len(scene.asked) == 3


async def test_report_is_dropped_after_the_longest_transaction_timeout(scene: Scene) -> None:
    scene.answers = [DeadEnd.UNANSWERED]
    scene.hear()
    await scene.turns(0, LOOKED_AFTER_FOR.total_seconds())
    assert len(scene.asked) == 1


async def test_a_glance_sees_the_end_of_a_known_process_and_asks_for_a_turn(scene: Scene) -> None:
    await scene.turns(0)
    assert await scene.loop.glance()
    scene.ended = [PROCESS]
    assert not await scene.loop.glance()
    await scene.turns(0)
    assert len(scene.asked) == 1
    assert await scene.loop.glance()


async def test_a_glance_asks_for_a_turn_when_a_report_or_a_repetition_is_due(scene: Scene) -> None:
    scene.answers = [DeadEnd.UNANSWERED, DeadEnd.ENDED]
    await scene.turns(0)
    scene.hear()
    assert not await scene.loop.glance()
    await scene.turns(0)
    assert await scene.loop.glance(), "its next try is later"
    scene.now += timedelta(minutes=1)
    assert not await scene.loop.glance()
    await scene.turns(0)
    assert await scene.loop.glance()
    assert len(scene.asked) == 2
