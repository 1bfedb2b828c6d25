"""A pipeline that migrates for real: tasks as processes on a real broker, journals that are observed, the real driver.

Only Spark and the reconciler are played. An instance is one process, which is begun, drained, lost and begun again by
its rows. Its heartbeats are its output.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from app.core.clusters.surveys import Surveys
from app.core.ids.transactional_id import for_task
from app.core.observing.loops.observer import Observer
from app.core.observing.service.observations import Observations
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.mode import DEFINED_BY, Mode, mode_of
from app.core.runs.run import Run
from app.core.runs.service.specifications import specification_for
from app.core.runs.store.runs import RunStore
from app.core.runs.task import OutcomeKind
from app.core.wire.heartbeat import TaskHeartbeat
from app.edges.db.database import Database
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.kit.access import Principal, Role, RunTokenScope
from app.kit.clock import SystemClock
from app.kit.db.unit_of_work import UnitOfWork
from app.products.migrations.look import AuditNow, PreflightFacts
from app.products.migrations.loop import MigrationDriver
from app.products.migrations.migration import Migration
from app.products.migrations.service import asking
from app.products.migrations.service.looking import look_now
from app.products.migrations.service.questions import BrokerActs, BrokerQuestions
from tests.fault_suite.freeze_points import FreezePoints
from tests.support.control_plane import ControlPlane
from tests.support.pipelines import TestPipeline
from tests.support.tasks import Report, TaskProcess
from tests.support.watched import observer_of
from workers.loop.control import TaskSnapshot

OTTO = Principal(name="otto", role=Role.OPERATOR)
PIPELINE = "flights"
CLUSTER = "real"
_TURN_S = 0.3


class Questions(BrokerQuestions):
    """Asks real brokers. The search for hanging transactions and the audit are loops of their own, and tested there."""

    async def preflight(self, migration: Migration, ids: tuple[str, ...]) -> PreflightFacts:
        return replace(await super().preflight(migration, ids), hanging_unknown="")

    async def audit(self, uow: UnitOfWork, migration: Migration) -> AuditNow:
        del uow, migration
        return AuditNow(audit_id="by-the-test", is_through=True, expected=1)


class InstanceProcess:
    """One lease of an instance: its process, and what it has printed since it was read last."""

    def __init__(self, process: TaskProcess, folder: Path) -> None:
        self.process = process
        self.snapshot: TaskSnapshot | None = None
        self.sequence = 0
        self.is_draining = False
        self.over = folder / "over"
        self._reports = folder / "reports.jsonl"
        self._read = 0

    def hear(self) -> TaskSnapshot | None:
        """The newest snapshot, if there is one that was not reported yet."""
        with self._reports.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        found = [msgspec.json.decode(line, type=Report).snapshot for line in whole.splitlines()]
        snapshots = [one for one in found if one is not None]
        if not snapshots:
            return None
        self.snapshot = snapshots[-1]
        self.sequence += 1
        return self.snapshot


@dataclass(slots=True)
class MigratingTasks:
    """points: where its processes may be asked to freeze."""

    plane: ControlPlane
    pipeline: TestPipeline
    folder: Path
    observations: Observations
    observer: Observer
    brokers: KafkaBrokers
    transactions: KafkaTransactions
    points: FreezePoints
    processes: dict[tuple[int, int], InstanceProcess] = field(default_factory=dict[tuple[int, int], InstanceProcess])
    turns: int = 0

    @classmethod
    def of(cls, database: Database, pipeline: TestPipeline, folder: Path) -> MigratingTasks:
        observations = Observations(is_on=True)
        return cls(
            plane=ControlPlane(database, now=datetime.now(UTC)),
            pipeline=pipeline,
            folder=folder,
            observations=observations,
            observer=observer_of(database, folder / "journals", observations),
            brokers=KafkaBrokers(environment=os.environ, secrets_dir=None),
            transactions=KafkaTransactions(environment=os.environ, secrets_dir=None),
            points=FreezePoints(folder / "freeze"),
        )

    async def close(self) -> None:
        self.points.thaw_all()
        for one in self.processes.values():
            one.process.close()
        await self.observer.close()
        await self.brokers.close()

    async def begin(self, mode: Mode, *, instances: int = 3) -> None:
        """All instances run in this mode, and every partition is held."""
        await self.plane.registered(self.brokers, self.pipeline.bootstrap_servers, name=CLUSTER)
        guarantee, fencing = DEFINED_BY[mode]
        fields = {name: getattr(self.pipeline.definition, name) for name in self.pipeline.definition.__struct_fields__}
        changed: dict[str, Any] = {
            "cluster": CLUSTER,
            "instances": instances,
            "processing_guarantee": guarantee,
            "offset_fencing": fencing,
        }
        await self.plane.pipeline(PIPELINE, **{**fields, **changed})
        await self.plane.run(PIPELINE)
        await self.until(self._all_held, "every partition is held")

    async def _all_held(self) -> bool:
        held = [one.snapshot.partitions for one in self.processes.values() if one.snapshot is not None]
        named = {(at.topic, at.partition) for partitions in held for at in partitions}
        return len(named) == self.pipeline.partitions

    async def until(self, is_so: Callable[[], Any], what: str, *, deadline_s: float = 120) -> None:
        """Turns until the coroutine function says so."""
        deadline = asyncio.get_running_loop().time() + deadline_s
        while not await is_so():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not so after {deadline_s} s: {what}; {await self.said()}")
            await self.turn()

    async def said(self) -> str:
        async with self.plane.uow() as uow:
            found = (await asking.list_migrations(uow, pipeline=PIPELINE, limit=1)).items
        run = await self.run()
        leases = [(one.ordinal, one.lease, one.revision, str(one.state)) for one in run.instances]
        waits = [(one.stage, one.state, one.missing, [c for c in one.gate if not c.is_open]) for one in found]
        return f"{waits}; {leases}; targets {run.targets}"

    async def start(self, goal: Mode = Mode.V2, **waived: str) -> Migration:
        async with self.plane.uow() as uow:
            migration = await asking.start_migration(
                uow, self.brokers, pipeline=PIPELINE, goal=goal, waived=waived, by=OTTO, why=None, now=self._now()
            )
            await uow.commit()
        return migration

    async def get(self, migration: Migration) -> Migration:
        async with self.plane.uow() as uow:
            return await asking.get_migration(uow, migration.id)

    async def until_migrated(
        self, migration: Migration, is_so: Callable[[Migration], bool], what: str, *, deadline_s: float = 240
    ) -> Migration:
        async def seen() -> bool:
            now = await self.get(migration)
            assert now.state not in ("stopped", "aborted"), f"{what}: {now.missing}; {await self.said()}"
            return is_so(now)

        await self.until(seen, what, deadline_s=deadline_s)
        return await self.get(migration)

    async def roll_back(self, migration: Migration, to: Mode) -> None:
        async with self.plane.uow() as uow:
            look = await look_now(uow, self.observations, migration.id, now=self._now())
            await asking.roll_back(uow, migration.id, look, to=to, by=OTTO, why=None, now=self._now())
            await uow.commit()

    async def run(self) -> Run:
        async with self.plane.uow() as uow:
            run = await uow.of(RunStore).find_live(PIPELINE)
        assert run is not None
        return run

    async def switch_at_once(self, *ordinals: int) -> None:
        """Send these instances straight to v2, against the documentation."""
        guarantee, fencing = DEFINED_BY[Mode.V2]
        async with self.plane.uow() as uow:
            number = (await uow.of(PipelineStore).get(PIPELINE)).current_revision
        if number == 1:
            await self.plane.revise(PIPELINE, processing_guarantee=guarantee, offset_fencing=fencing)
        run = await self.run()
        async with self.plane.uow() as uow:
            await uow.of(RunStore).set_targets(run.id, {**run.targets, **dict.fromkeys(ordinals, 2)})
            await uow.commit()

    async def modes(self) -> list[Mode | None]:
        """The processes of the running instances, by ordinal."""
        run = await self.run()
        async with self.plane.uow() as uow:
            numbers = [one.revision for one in run.instances if one.state is InstanceState.RUNNING]
            return [
                mode_of((await uow.of(PipelineStore).get_revision(PIPELINE, number)).definition) for number in numbers
            ]

    async def drain(self) -> None:
        """Every process commits what it has open, and leaves."""
        for one in self.processes.values():
            if one.process.is_running:
                one.process.drain()

    def of_lease(self, ordinal: int, lease: int) -> TaskProcess:
        return self.processes[ordinal, lease].process

    async def lose(self, ordinal: int) -> TaskProcess:
        """The cluster manager reports it as gone, dead or alive."""
        run = await self.run()
        lease = run.instances[ordinal].lease
        self.processes[ordinal, lease].over.touch()
        for state in (InstanceState.UNREACHABLE, InstanceState.LOST):
            await self.plane.move(run.id, ordinal, state, lease=lease)
        return self.processes[ordinal, lease].process

    async def turn(self) -> None:
        """Play a second of a control plane, by a server that has just been started."""
        self._now()
        self.turns += 1
        run = await self.run()
        for one in run.instances:
            await self._reconcile(run, one)
        for (ordinal, lease), process in list(self.processes.items()):
            await self._beat(run, ordinal, lease, process)
        await self.observer.turn()
        self._now()
        await self.driver().turn()
        await asyncio.sleep(_TURN_S)

    def driver(self) -> MigrationDriver:
        clock = SystemClock()
        unit_of_work = self.plane.database.unit_of_work
        return MigrationDriver(
            unit_of_work=unit_of_work,
            observations=self.observations,
            acts=BrokerActs(
                unit_of_work=unit_of_work, brokers=self.transactions, observations=self.observations, clock=clock
            ),
            questions=Questions(
                unit_of_work=unit_of_work,
                brokers=self.brokers,
                transactions=self.transactions,
                surveys=Surveys(self.brokers, clock),
                observations=self.observations,
                clock=clock,
            ),
            clock=clock,
            where=f"server {self.turns}",
        )

    async def _reconcile(self, run: Run, one: Instance) -> None:
        process = self.processes.get((one.ordinal, one.lease))
        if one.has_ended:
            lease = await self.plane.lease(run.id, one.ordinal)
            await self._begin(run.id, one.ordinal, lease)
        elif process is None:
            await self._begin(run.id, one.ordinal, one.lease)
        elif not process.process.is_running:
            if not process.is_draining:
                await self.lose(one.ordinal)
                return
            process.over.touch()
            await self.plane.outcome(run.id, one.ordinal, one.lease, kind=OutcomeKind.DRAINED)
        elif (
            one.revision != run.target_of(one.ordinal)
            and one.state is InstanceState.RUNNING
            and all(other.state is InstanceState.RUNNING for other in run.instances)
        ):
            await self.plane.move(run.id, one.ordinal, InstanceState.DRAINING, lease=one.lease)
            process.is_draining = True
            process.process.ask_to_drain()

    async def _begin(self, run_id: str, ordinal: int, lease: int) -> None:
        await self.plane.submit(run_id, ordinal, lease)
        await self.plane.claim(run_id, ordinal, lease)
        await self.plane.move(run_id, ordinal, InstanceState.RUNNING, lease=lease)
        async with self.plane.uow() as uow:
            specification = await specification_for(
                uow,
                RunTokenScope(run_id=run_id, ordinal=ordinal, lease=lease),
                run_token="t",
                fenceline_version="0.1.0",
                server_urls=(),
            )
        folder = self.folder / f"{ordinal}.{lease}"
        environment = {**os.environ, "FENCELINE_TEST_IS_CURRENT": str(folder / "over")}
        process = TaskProcess(specification, folder, environment=self.points.environment_of(environment))
        self.processes[ordinal, lease] = InstanceProcess(process, folder)

    async def _beat(self, run: Run, ordinal: int, lease: int, process: InstanceProcess) -> None:
        snapshot = process.hear()
        if snapshot is None:
            return
        heartbeat = TaskHeartbeat(
            run_id=run.id,
            ordinal=ordinal,
            lease=lease,
            task=0,
            attempt=0,
            sequence=process.sequence,
            sent_at_ms=int(self.plane.now.timestamp() * 1000),
            host=f"w{ordinal}",
            pid=process.process.pid,
            state=snapshot.state,
            transactional_id=None,
            member_id=snapshot.member_id,
            generation=snapshot.generation,
            partitions=snapshot.partitions,
            counters=snapshot.counters,
            producer_id=snapshot.producer_id,
            producer_epoch=snapshot.producer_epoch,
        )
        if snapshot.producer_id is not None:
            own = for_task(prefix="fl", pipeline=PIPELINE, instance=ordinal, task=0)
            heartbeat = replace(heartbeat, transactional_id=own)
        await self.plane.beat(heartbeat)

    def _now(self) -> datetime:
        self.plane.now = datetime.now(UTC)
        return self.plane.now
