"""Leases whose tasks are dead, on a real database; the test sets the answers of brokers and Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from app.core.access.command import Command, CommandFilter
from app.core.access.service import command_log
from app.core.blocked.brokers import FencedProducer, NotEnded, TransactionBrokers
from app.core.blocked.facts import KnownTransaction, Refused
from app.core.blocked.loops.dead_tasks import DeadTasks
from app.core.clusters.partition import Partition
from app.core.fencing.record import FencingFilter, FencingRecord
from app.core.fencing.store import FencingStore
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.launcher import SparkLauncher
from app.core.runs.observation import MasterWord, Observation, ProcessWord, ReportedProcess
from app.kit.errors import BrokerUnreachableError
from tests.support.control_plane import CLUSTER, ControlPlane, PlaneClock, task_heartbeat

GONE = Observation(process=ProcessWord.GONE, master=MasterWord.FINISHED)
ID = "fl.t.flights.0.0"
OPEN = KnownTransaction(ID, 1, "Ongoing", 7, 4, 10_000, 0, frozenset({Partition("out", 0)}))


@dataclass
class ScriptedBrokers:
    """Coordinators of one id, and of groups. `answers`: their answers to an end, the last one repeatedly.

    members: by group and id. removals: the first answers to removals; later ones are made. acts: all changes, in order.
    """

    known: KnownTransaction | Refused | None = OPEN
    answers: list[FencedProducer | NotEnded | Exception] = field(default_factory=lambda: [FencedProducer(7, 5)])
    can_end: bool = True
    is_away: bool = False
    asked: list[str] = field(default_factory=list[str])
    ended: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    members: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    removals: list[bool | Exception] = field(default_factory=list[bool | Exception])
    acts: list[str] = field(default_factory=list[str])

    async def describe_transaction(self, _: object, transactional_id: str, **__: Any) -> Any:
        self.asked.append(transactional_id)
        if self.is_away:
            raise BrokerUnreachableError("127.0.0.1:9", "away", 5.0)
        return self.known

    async def can_end_transactions(self, *_: object, **__: Any) -> bool:
        return self.can_end

    async def end_transaction(
        self, _: object, transactional_id: str, *, producer_id: int, producer_epoch: int, **__: Any
    ) -> Any:
        self.acts.append(f"end {transactional_id}")
        self.ended.append((transactional_id, producer_id, producer_epoch))
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def is_member(self, _: object, group: str, member_id: str, **__: Any) -> bool:
        if self.is_away:
            raise BrokerUnreachableError("127.0.0.1:9", "away", 5.0)
        return (group, member_id) in self.members

    async def remove_member(self, _: object, group: str, member_id: str, **__: Any) -> bool:
        self.acts.append(f"remove {member_id} of {group}")
        answer = self.removals.pop(0) if self.removals else True
        if isinstance(answer, Exception):
            raise answer
        self.members.discard((group, member_id))
        return answer


@dataclass
class ScriptedSpark:
    """has_ended: the processes that were reported to the turn before have ended."""

    seen: Observation = GONE
    reported: list[ReportedProcess] = field(default_factory=list[ReportedProcess])
    has_ended: bool = False

    async def ended_tasks(self, reported: Collection[ReportedProcess]) -> list[ReportedProcess]:
        known, self.reported = self.reported, list(reported)
        return known if self.has_ended else []

    async def observe(self, _: Instance, __: PipelineDefinition) -> Observation:
        return self.seen


@dataclass
class Scene:
    plane: ControlPlane
    brokers: ScriptedBrokers = field(default_factory=ScriptedBrokers)
    spark: ScriptedSpark = field(default_factory=ScriptedSpark)

    def loop(self) -> DeadTasks:
        """The loop of one server; another server, or the same after a restart, has its own."""
        return DeadTasks(
            unit_of_work=self.plane.uow,
            brokers=cast(TransactionBrokers, self.brokers),
            launcher=cast(SparkLauncher, self.spark),
            clock=PlaneClock(self.plane),
            host="w1",
            where="w1",
        )

    async def beat(self, run_id: str, **fields: Any) -> None:
        await self.plane.beat(replace(task_heartbeat(run_id), **{"producer_id": 7, "producer_epoch": 4, **fields}))

    async def die(self, to: InstanceState = InstanceState.FAILED, **fields: Any) -> str:
        """A run whose only task had a transaction open when its driver was killed, three seconds ago."""
        run = await self.plane.running()
        await self.beat(run.id, **fields)
        await self.plane.move(run.id, 0, to, reason="killed")
        self.plane.pass_time(3)
        return run.id

    async def commands(self) -> list[Command]:
        async with self.plane.uow() as uow:
            return list((await command_log.list_commands(uow, CommandFilter(target=f"cluster:{CLUSTER}"))).items)

    async def events(self) -> list[FencingRecord]:
        async with self.plane.uow() as uow:
            return list((await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items)
