"""A reconciler on a real database, whose Spark is a recorder."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.launcher import Submitted
from app.core.runs.loops.reconciler import Reconciler
from app.core.runs.observation import MasterWord, Observation, ProcessWord, ReportedProcess
from app.core.wire.specification import InstanceSpecification
from app.kit.errors import UnavailableError
from tests.support.control_plane import ControlPlane, PlaneClock

ALIVE = Observation(process=ProcessWord.ALIVE, master=MasterWord.NOT_ASKED)


GONE = Observation(process=ProcessWord.GONE, master=MasterWord.FINISHED, log_tail="ERROR out of luck\n")


@dataclass
class RecordingSpark:
    """Says what the test says of every application, and remembers what it was asked to do."""

    plane: ControlPlane
    seen: dict[int, Observation] = field(default_factory=dict[int, Observation])
    submitted: list[InstanceSpecification] = field(default_factory=list[InstanceSpecification])
    states_when_submitted: list[InstanceState] = field(default_factory=list[InstanceState])
    stopped: list[int] = field(default_factory=list[int])
    killed: list[int] = field(default_factory=list[int])
    observed: list[PipelineDefinition] = field(default_factory=list[PipelineDefinition])
    refusal: str | None = None

    async def submit(self, specification: InstanceSpecification) -> Submitted:
        run = await self.plane.get_run(specification.run_id)
        self.states_when_submitted.append(run.instances[specification.ordinal].state)
        if self.refusal is not None:
            raise UnavailableError(self.refusal)
        self.submitted.append(specification)
        return Submitted(host="w1", jvm_pid=100, started_at=self.plane.now, log_path="/log")

    async def observe(self, instance: Instance, definition: PipelineDefinition) -> Observation:
        self.observed.append(definition)
        return self.seen.get(instance.ordinal, ALIVE)

    async def ended_tasks(self, reported: Collection[ReportedProcess]) -> list[ReportedProcess]:
        """No task has a process here."""
        return []

    async def stop(self, instance: Instance) -> None:
        self.stopped.append(instance.ordinal)

    async def kill(self, instance: Instance) -> None:
        self.killed.append(instance.ordinal)


@pytest.fixture
def spark(plane: ControlPlane) -> RecordingSpark:
    return RecordingSpark(plane)


@pytest.fixture
def reconciler(plane: ControlPlane, spark: RecordingSpark) -> Reconciler:
    return make_reconciler(plane, spark)


def make_reconciler(plane: ControlPlane, spark: RecordingSpark) -> Reconciler:
    return Reconciler(
        unit_of_work=plane.uow,
        launcher=spark,
        clock=PlaneClock(plane),
        host="w1",
        version="0.1.0",
        server_urls=lambda: ("http://127.0.0.1:8701",),
    )


async def states(plane: ControlPlane, run_id: str) -> list[tuple[int, InstanceState]]:
    return [(one.lease, one.state) for one in (await plane.get_run(run_id)).instances]


async def settle(plane: ControlPlane, reconciler: Reconciler) -> None:
    """A first turn, and the time in which nothing is started."""
    await reconciler.turn()
    plane.pass_time(21)
