"""A control plane for tests: services on a real database, with pipelines and runs that are a line to make.

Rows are written as the services write them, without asking a broker; tests that are about brokers bring a real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from app.core.clusters import service as clusters
from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.service.events import record_cases
from app.core.mappings import service as mappings
from app.core.mappings.mapping import PartitionMapping
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline, Revision
from app.core.pipelines.revision import definition_sha256
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import InstanceState
from app.core.runs.run import Run
from app.core.runs.service import heartbeats, instances
from app.core.runs.service.run_endings import begin_run
from app.core.runs.store.runs import RunStore
from app.core.runs.task import Counters, PartitionProgress, TaskState
from app.core.wire.heartbeat import (
    Claim,
    ClaimAnswer,
    DriverAnswer,
    DriverHeartbeat,
    HeartbeatAnswer,
    OutcomeKind,
    ReportedOutcome,
    TaskEvent,
    TaskHeartbeat,
)
from app.edges.db.database import Database
from app.kit.access import RECONCILER, Principal, Role, RunTokenScope
from app.kit.db.unit_of_work import UnitOfWork

CLUSTER = "test"
KAFKA_CLUSTER_ID = "a-kafka-cluster"
ANNA = Principal(name="anna", role=Role.ADMINISTRATOR)


def definition(**fields: Any) -> PipelineDefinition:
    """A definition that reads `in` and writes `out`; `fields` are those that matter to the test."""
    defaults: dict[str, Any] = {
        "cluster": CLUSTER,
        "source_topics": ("in",),
        "group_id": "group",
        "sink_topic": "out",
    }
    return PipelineDefinition(**{**defaults, **fields})


@dataclass(slots=True)
class ControlPlane:
    """`now` is fixed until `pass_time` moves it. Each method is one unit of work, committed."""

    database: Database
    now: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def uow(self) -> UnitOfWork:
        return self.database.unit_of_work()

    def pass_time(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    async def cluster(self, name: str = CLUSTER, *, kafka_cluster_id: str = KAFKA_CLUSTER_ID) -> Cluster:
        cluster = Cluster(
            name=name,
            kafka_cluster_id=kafka_cluster_id,
            bootstrap_servers="127.0.0.1:9",
            created_at=self.now,
            created_by="anna",
        )
        async with self.uow() as uow:
            await uow.of(ClusterStore).add(cluster)
            await uow.commit()
        return cluster

    async def registered(self, brokers: Brokers, bootstrap_servers: str, *, name: str = "real") -> Cluster:
        """A cluster that its brokers were asked about, as an administrator registers it."""
        async with self.uow() as uow:
            cluster = await clusters.register_cluster(
                uow,
                brokers,
                name=name,
                bootstrap_servers=bootstrap_servers,
                client_config={},
                allowed_addresses=(),
                by=ANNA,
                why=None,
                now=self.now,
            )
            await uow.commit()
        return cluster

    async def pipeline(self, name: str = "flights", **fields: Any) -> Pipeline:
        """A pipeline at revision 1 on the cluster `test`, which is there after the first call."""
        made = definition(**{"group_id": f"{name}-group", **fields})
        async with self.uow() as uow:
            known = [cluster.name for cluster in await uow.of(ClusterStore).list_all()]
        if made.cluster not in known:
            await self.cluster(made.cluster)
        async with self.uow() as uow:
            pipeline = await uow.of(PipelineStore).add(
                name=name, revision=self._revision(name, 1, made), cluster=made.cluster
            )
            await uow.commit()
        return pipeline

    async def revise(self, name: str, **fields: Any) -> Revision:
        """The next revision of a pipeline; nothing else is touched."""
        async with self.uow() as uow:
            before = await uow.of(PipelineStore).get(name)
            revision = self._revision(name, before.current_revision + 1, replace(before.definition, **fields))
            await uow.of(PipelineStore).add_revision(revision)
            await uow.commit()
        return revision

    def _revision(self, name: str, number: int, made: PipelineDefinition) -> Revision:
        return Revision(
            pipeline=name,
            number=number,
            definition=made,
            definition_sha256=definition_sha256(made),
            transform_source_sha256=None,
            created_at=self.now,
            created_by="anna",
        )

    async def run(self, name: str = "flights") -> Run:
        """A run of the pipeline's current revision, its instances PENDING."""
        async with self.uow() as uow:
            run = await begin_run(
                uow, await uow.of(PipelineStore).get(name, for_update=True), started_by="anna", now=self.now
            )
            await uow.commit()
        return run

    async def running(self, name: str = "flights", **fields: Any) -> Run:
        """A pipeline with a run whose instances are all RUNNING."""
        await self.pipeline(name, **fields)
        run = await self.run(name)
        for instance in run.instances:
            await self.submit(run.id, instance.ordinal)
            await self.claim(run.id, instance.ordinal)
            await self.move(run.id, instance.ordinal, InstanceState.RUNNING)
        return await self.get_run(run.id)

    async def get_run(self, run_id: str) -> Run:
        async with self.uow() as uow:
            return await uow.of(RunStore).get(run_id)

    async def mappings(self, pipeline: str = "flights") -> list[PartitionMapping]:
        async with self.uow() as uow:
            return await mappings.list_mappings(uow, pipeline)

    async def submit(self, run_id: str, ordinal: int = 0, lease: int = 1) -> str:
        """PENDING → SUBMITTING; the run token."""
        async with self.uow() as uow:
            _, secret = await instances.begin_submission(
                uow, run_id=run_id, ordinal=ordinal, lease=lease, host="w1", now=self.now
            )
            await uow.commit()
        return secret

    async def claim(self, run_id: str, ordinal: int = 0, lease: int = 1, application_id: str = "") -> ClaimAnswer:
        async with self.uow() as uow:
            answer = await instances.claim_instance(
                uow, claim_of(run_id, ordinal, lease, application_id or app_id(ordinal, lease)), now=self.now
            )
            await uow.commit()
        return answer

    async def move(
        self, run_id: str, ordinal: int, to: InstanceState, *, lease: int = 1, reason: str | None = None
    ) -> None:
        async with self.uow() as uow:
            await instances.advance_instance(
                uow, run_id=run_id, ordinal=ordinal, lease=lease, to=to, reason=reason, now=self.now
            )
            await uow.commit()

    async def lease(self, run_id: str, ordinal: int = 0) -> int:
        async with self.uow() as uow:
            instance = await instances.lease_instance(
                uow, run_id=run_id, ordinal=ordinal, by=RECONCILER, reason=None, now=self.now
            )
            await uow.commit()
        return instance.lease

    async def beat(self, heartbeat: TaskHeartbeat) -> HeartbeatAnswer:
        scope = RunTokenScope(run_id=heartbeat.run_id, ordinal=heartbeat.ordinal, lease=heartbeat.lease)
        async with self.uow() as uow:
            heard = await heartbeats.receive_heartbeat(uow, heartbeat, scope=scope, now=self.now)
            await record_cases(uow, heard.fencing, now=self.now)
            await uow.commit()
        return heard.answer

    async def drive(self, heartbeat: DriverHeartbeat) -> DriverAnswer:
        scope = RunTokenScope(run_id=heartbeat.run_id, ordinal=heartbeat.ordinal, lease=heartbeat.lease)
        async with self.uow() as uow:
            heard = await heartbeats.receive_driver_heartbeat(uow, heartbeat, scope=scope, now=self.now)
            await uow.commit()
        return heard.answer

    async def outcome(
        self,
        run_id: str,
        ordinal: int = 0,
        lease: int = 1,
        *,
        kind: OutcomeKind,
        application_id: str = "",
        message: str = "as the test set it",
    ) -> None:
        scope = RunTokenScope(run_id=run_id, ordinal=ordinal, lease=lease)
        outcome = ReportedOutcome(
            run_id=run_id,
            ordinal=ordinal,
            lease=lease,
            kind=kind,
            message=message,
            application_id=application_id or app_id(ordinal, lease),
        )
        async with self.uow() as uow:
            await heartbeats.receive_outcome(uow, outcome, scope=scope, now=self.now)
            await uow.commit()


@dataclass(slots=True)
class PlaneClock:
    """The control plane's time, for loops."""

    plane: ControlPlane

    def now(self) -> datetime:
        return self.plane.now


def app_id(ordinal: int, lease: int) -> str:
    return f"app-{ordinal}-{lease}"


def claim_of(run_id: str, ordinal: int, lease: int, application_id: str) -> Claim:
    return Claim(
        fenceline_version="0.1.0",
        python_version="3.11",
        run_id=run_id,
        ordinal=ordinal,
        lease=lease,
        application_id=application_id,
        host="w1",
        jvm_pid=100,
        python_pid=101,
        process_started_at_ms=1_767_225_600_000,
    )


def task_heartbeat(
    run_id: str,
    *,
    ordinal: int = 0,
    lease: int = 1,
    task: int = 0,
    attempt: int = 0,
    sequence: int = 1,
    state: TaskState = TaskState.RUNNING,
    partitions: Sequence[tuple[str, int]] = (),
    generation: int | None = 1,
    sent_at_ms: int | None = None,
    events: Sequence[TaskEvent] = (),
    **counters: int,
) -> TaskHeartbeat:
    return TaskHeartbeat(
        run_id=run_id,
        ordinal=ordinal,
        lease=lease,
        task=task,
        attempt=attempt,
        sequence=sequence,
        sent_at_ms=sequence * 1000 if sent_at_ms is None else sent_at_ms,
        host="w1",
        pid=4711,
        state=state,
        transactional_id=f"fl.t.flights.{ordinal}.{task}",
        member_id="member",
        generation=generation,
        partitions=tuple(
            PartitionProgress(topic=topic, partition=number, position=8, committed=5, end=12)
            for topic, number in partitions
        ),
        counters=Counters(**counters),
        events=tuple(events),
    )


def driver_heartbeat(run_id: str, *, ordinal: int = 0, lease: int = 1, **fields: Any) -> DriverHeartbeat:
    values: dict[str, Any] = {
        "application_id": app_id(ordinal, lease),
        "host": "w1",
        "sent_at_ms": 1,
        "executors": 1,
        "tasks_running": 1,
        "tasks_waiting": 0,
        **fields,
    }
    return DriverHeartbeat(run_id=run_id, ordinal=ordinal, lease=lease, **values)
