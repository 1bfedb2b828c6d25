"""A pipeline that migrates, on a real database: the journals, the brokers' answers and the instances are played.

Every instance has one task, and each reads one partition; a heartbeat then names all that a task holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from app.core.clusters.brokers import GroupDescription, PartitionOffsets
from app.core.clusters.cluster import GroupMember
from app.core.clusters.partition import Partition
from app.core.clusters.survey import Survey
from app.core.ids.transactional_id import for_partition, for_task
from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.live_groups import LiveGroup
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot, SnapshotSource
from app.core.pipelines.store import PipelineStore
from app.core.runs.client_id import TaskName, client_id_of
from app.core.runs.instance import InstanceState
from app.core.runs.mode import DEFINED_BY, Mode, mode_of
from app.core.runs.run import Run
from app.core.runs.store.runs import RunStore
from app.core.runs.task import OutcomeKind, PartitionProgress
from app.core.wiring import Wiring
from app.kit.access import Principal, Role
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError
from app.products.migrations.decision import EvidencePatience
from app.products.migrations.look import AuditNow, Incarnation, MigrationLook, PreflightFacts
from app.products.migrations.loop import MigrationDriver
from app.products.migrations.migration import Migration
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service import asking
from app.products.migrations.service.looking import look_at
from tests.support.control_plane import CLUSTER, ControlPlane, PlaneClock, task_heartbeat
from tests.support.observing import live_transaction, state_of

OTTO = Principal(name="otto", role=Role.OPERATOR)
PIPELINE = "flights"
GROUP = "flights-group"
FINE = PreflightFacts(
    versions={"1": (4, 3)},
    features="finalized: transaction.version 2",
    rights_refused=(),
    transaction_timeout_ms=10_000,
    abort_sweep_ms=10_000,
)
JOURNALLED = 3, 41
"""Where each id's newest record lies in the played journal: its partition, its offset."""
CLEAN = AuditNow(audit_id="a1", is_through=True, expected=40)


def id_of(mode: Mode, ordinal: int) -> str:
    """The id of this instance's task, or of the partition that it reads."""
    if mode is Mode.V2:
        return for_task(prefix="fl", pipeline=PIPELINE, instance=ordinal, task=0)
    return for_partition(prefix="fl", group=GROUP, topic="in", partition=ordinal)


def _member_of(ordinal: int, lease: int) -> str:
    return f"m-{ordinal}-{lease}"


class ServerDiedError(Exception):
    """In the middle of a turn."""


class PlayedBrokers:
    """The brokers' answers about the group's offsets and the ends of partitions; no others are requested."""

    async def committed_offsets(self, *_: Any, **__: Any) -> dict[Partition, int]:
        return {Partition("in", 0): 5, Partition("in", 1): 7}

    async def offsets(self, _: Any, partitions: Collection[Partition], **__: Any) -> dict[Partition, PartitionOffsets]:
        return {at: PartitionOffsets(earliest=0, last_stable=9, high_watermark=9) for at in partitions}


@dataclass(slots=True)
class Migrating:
    """The state of a played migration, and its acts.

    epochs: of each id that the journal has. open_ids, aborted_ids: with an open transaction, or one that was ended.
    away: instances that do not come back from a drain. `silent`: those whose task sends no heartbeat. reads: the
    partition of each. dies_at: the id at whose fence the server dies. refusal: the answer to every fence.
    fence_takes_s: the duration of each. guests: members beside the reported tasks. facts, waiting, audit_now, lost:
    the answers of brokers and an audit.
    """

    plane: ControlPlane
    observations: Observations = field(default_factory=lambda: Observations(is_on=True))
    epochs: dict[str, int] = field(default_factory=dict[str, int])
    open_ids: set[str] = field(default_factory=set[str])
    aborted_ids: set[str] = field(default_factory=set[str])
    away: set[int] = field(default_factory=set[int])
    silent: set[int] = field(default_factory=set[int])
    facts: PreflightFacts = FINE
    waiting: dict[str, tuple[int, int]] | None = field(default_factory=dict[str, tuple[int, int]])
    audit_now: AuditNow = CLEAN
    lost: str = ""
    reads: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 1})
    dies_at: str = ""
    fences: list[str] = field(default_factory=list[str])
    is_group_stable: bool = True
    guests: list[GroupMember] = field(default_factory=list[GroupMember])
    generation: int = 3
    refusal: str = ""
    fence_takes_s: float = 0.0
    sequence: int = 0

    async def running(self, mode: Mode = Mode.GROUP_ONLY, **fields: Any) -> Run:
        """Two instances in this mode, each with its task reported and its id in the journal."""
        guarantee, fencing = DEFINED_BY[mode]
        wanted: dict[str, Any] = {"processing_guarantee": guarantee, "offset_fencing": fencing, "instances": 2}
        run = await self.plane.running(PIPELINE, **{**wanted, **fields})
        for ordinal in range(2):
            self._init(id_of(mode, ordinal))
        await self.beat()
        return run

    async def start(self, goal: Mode = Mode.V2, *, by: Principal = OTTO, **waived: str) -> Migration:
        brokers: Any = PlayedBrokers()
        async with self.plane.uow() as uow:
            migration = await asking.start_migration(
                uow, brokers, pipeline=PIPELINE, goal=goal, waived=waived, by=by, why="to see", now=self.plane.now
            )
            await uow.commit()
        return migration

    async def get(self, migration: Migration) -> Migration:
        async with self.plane.uow() as uow:
            return await asking.get_migration(uow, migration.id)

    async def newest(self) -> Migration:
        async with self.plane.uow() as uow:
            return (await asking.list_migrations(uow, pipeline=PIPELINE, limit=1)).items[0]

    async def run(self) -> Run:
        async with self.plane.uow() as uow:
            run = await uow.of(RunStore).find_live(PIPELINE)
        assert run is not None
        return run

    async def modes(self) -> list[Mode | None]:
        """The modes of the present instances, by ordinal."""
        run = await self.run()
        async with self.plane.uow() as uow:
            definitions = [
                (await uow.of(PipelineStore).get_revision(PIPELINE, one.revision)).definition for one in run.instances
            ]
        return [mode_of(definition) for definition in definitions]

    async def turn(self, *, seconds: float = 2) -> None:
        """Time passes, instances and journals go on, and a driver that was just started looks once."""
        self.plane.pass_time(seconds)
        await self.bounce()
        await self.beat()
        self.publish()
        await self.driver().turn()

    async def until(
        self, migration: Migration, is_so: Callable[[Migration], bool], *, turns: int = 60, seconds: float = 2
    ) -> Migration:
        """Turns until the migration is so."""
        for _ in range(turns):
            seen = await self.get(migration)
            if is_so(seen):
                return seen
            await self.turn(seconds=seconds)
        seen = await self.get(migration)
        raise AssertionError(f"not so after {turns} turns: {seen.stage}, {seen.state} {seen.missing}, {seen.steps}")

    def driver(self, *, where: str = "w1:/state") -> MigrationDriver:
        return MigrationDriver(
            unit_of_work=self.plane.database.unit_of_work,
            observations=self.observations,
            acts=self,
            questions=self,
            clock=PlaneClock(self.plane),
            patience=EvidencePatience(),
            where=where,
            period_s=0.01,
        )

    async def bounce(self) -> None:
        """Play the reconciler and the workers for an instance that needs another revision: one at a time."""
        run = await self.run()
        for one in run.instances:
            if one.has_ended:
                if one.ordinal not in self.away:
                    await self._begin(run.id, one.ordinal)
                return
            if one.revision != run.target_of(one.ordinal) and one.state is InstanceState.RUNNING:
                await self.plane.move(run.id, one.ordinal, InstanceState.DRAINING, lease=one.lease)
                await self.plane.outcome(run.id, one.ordinal, one.lease, kind=OutcomeKind.DRAINED)
                return

    async def _begin(self, run_id: str, ordinal: int) -> None:
        self.generation += 1
        lease = await self.plane.lease(run_id, ordinal)
        await self.plane.submit(run_id, ordinal, lease)
        await self.plane.claim(run_id, ordinal, lease)
        await self.plane.move(run_id, ordinal, InstanceState.RUNNING, lease=lease)
        mode = (await self.modes())[ordinal]
        assert mode is not None
        self._init(self.id_of(mode, ordinal))

    def id_of(self, mode: Mode, ordinal: int) -> str:
        return id_of(mode, ordinal if mode is Mode.V2 else self.reads[ordinal])

    def _init(self, name: str) -> None:
        self.epochs[name] = self.epochs.get(name, -1) + 1
        self.open_ids.discard(name)
        self.aborted_ids.discard(name)

    async def lose(self, ordinal: int) -> None:
        """The instance sends no heartbeat, and is called lost; its process may sleep."""
        run = await self.run()
        lease = run.instances[ordinal].lease
        for state in (InstanceState.UNREACHABLE, InstanceState.LOST):
            await self.plane.move(run.id, ordinal, state, lease=lease)

    async def beat(self) -> None:
        run = await self.run()
        modes = await self.modes()
        self.sequence += 1
        for one in run.instances:
            mode = modes[one.ordinal]
            if one.state is not InstanceState.RUNNING or one.ordinal in self.silent or mode is None:
                continue
            name, partition = self.id_of(mode, one.ordinal), self.reads[one.ordinal]
            said = task_heartbeat(run.id, ordinal=one.ordinal, lease=one.lease, sequence=self.sequence)
            who = {"transactional_id": name, "producer_id": 7, "producer_epoch": self.epochs[name]}
            read = PartitionProgress(topic="in", partition=partition)
            if mode is not Mode.V2:
                sent_with = -1 if mode is Mode.GROUP_ONLY else self.generation
                read, who = replace(read, **who, offsets_generation=sent_with), {}
            said = replace(said, **who, partitions=(read,), member_id=_member_of(one.ordinal, one.lease))
            await self.plane.beat(replace(said, generation=self.generation))

    def publish(self) -> None:
        now_ms = int(self.plane.now.timestamp() * 1000)
        first, second = (
            JournalStatus(
                topic=topic,
                phase=ReadingPhase.LIVE,
                phase_since_ms=now_ms,
                source=SnapshotSource.JOURNAL,
                as_of_ms=now_ms,
            )
            for topic in JOURNALS
        )
        group = LiveGroup(GROUP, classic=ClassicGroup("consumer", self.generation, "range", "m", now_ms, ()))
        self.observations.publish(
            Snapshot(
                cluster=CLUSTER,
                number=now_ms,
                at_ms=now_ms,
                transaction_journal=first,
                group_journal=second,
                transactions={
                    name: replace(
                        live_transaction(name, state_of(self._status(name), epoch=epoch)),
                        partition=JOURNALLED[0],
                        offset=JOURNALLED[1],
                        timestamp_ms=now_ms,
                    )
                    for name, epoch in self.epochs.items()
                },
                groups={GROUP: group},
            )
        )

    def _status(self, name: str) -> TransactionStatus:
        if name in self.open_ids:
            return TransactionStatus.ONGOING
        return TransactionStatus.COMPLETE_ABORT if name in self.aborted_ids else TransactionStatus.EMPTY

    def time_out(self, name: str) -> None:
        """The coordinator ends what is open under the id."""
        self.epochs[name] += 1
        self.open_ids.discard(name)
        self.aborted_ids.add(name)

    async def look(self, migration: Migration) -> MigrationLook:
        self.publish()
        async with self.plane.uow() as uow:
            return await look_at(uow, self.observations.of(CLUSTER), await self.get(migration), now=self.plane.now)

    # The driver's requests.

    async def fence(self, migration: Migration, transactional_id: str, *, step: int) -> Incarnation:
        del migration, step
        if self.refusal:
            raise ConflictError(self.refusal)
        if transactional_id == self.dies_at:
            self.dies_at = ""
            raise ServerDiedError
        self.plane.pass_time(self.fence_takes_s)
        self._init(transactional_id)
        self.fences.append(transactional_id)
        return Incarnation(transactional_id, 7, self.epochs[transactional_id])

    async def group(self, migration: Migration) -> GroupDescription | None:
        del migration
        run = await self.run()
        members = [
            GroupMember(
                member_id=_member_of(one.ordinal, one.lease),
                client_id=client_id_of(PIPELINE, TaskName(ordinal=one.ordinal, task=0, lease=one.lease, attempt=0)),
                host="/10.0.0.1",
            )
            for one in run.instances
            if one.state is InstanceState.RUNNING and one.ordinal not in self.silent
        ]
        state = "Stable" if self.is_group_stable else "PreparingRebalance"
        return GroupDescription(group=GROUP, state=state, protocol="classic", members=(*members, *self.guests))

    async def of_cluster(self, cluster: str, group: str) -> tuple[GroupDescription | None, Survey | None]:
        del cluster
        members = tuple(
            GroupMember(member_id=f"streams-{one}", client_id=f"orders-{one}", host="/10.0.0.7") for one in ("a", "b")
        )
        return GroupDescription(group=group, state="Stable", protocol="classic", members=members), None

    async def preflight(self, migration: Migration, ids: tuple[str, ...]) -> PreflightFacts:
        del migration, ids
        return self.facts

    async def held_back(self, migration: Migration) -> dict[str, tuple[int, int]] | None:
        del migration
        return self.waiting

    async def lost_offsets(self, migration: Migration) -> str:
        del migration
        return self.lost

    async def audit(self, uow: UnitOfWork, migration: Migration) -> AuditNow:
        del uow, migration
        return self.audit_now


def played(wiring: Wiring, one: Migrating) -> None:
    """Have the pages and the API of this wiring ask what is played, not brokers."""
    # It is frozen so that nothing is exchanged while a server runs; here nothing runs yet.
    object.__setattr__(wiring, "brokers", PlayedBrokers())
    object.__setattr__(wiring, "parts", {MigrationQuestions: one})
