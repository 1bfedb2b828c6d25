"""Tasks that tell of their offsets, as a test says; and coordinators that know of them what the test says."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot
from app.core.runs.run import Run
from app.core.wire.heartbeat import TaskHeartbeat
from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    Event,
    GivenUp,
    PartitionLeaving,
    Positioned,
    RecordedCheckpoint,
)
from app.core.wire.offset_report import Init, OffsetReport, ReportedPartition
from app.products.offset_log import service as offset_log
from app.products.offset_log.check import PipelineCheck
from tests.support.control_plane import CLUSTER, ControlPlane, task_heartbeat
from tests.support.observing import live_transaction, state_of

ID_OF = {0: "fl.t.flights.0.0", 1: "fl.t.flights.0.1"}


def assigned(index: int, generation: int) -> Assigned:
    return Assigned(index=index, number=1, generation=generation)


def at(index: int, offset: int) -> Positioned:
    return Positioned(index=index, number=1, offset=offset)


def committed(index: int, start: int, end: int, *, checkpoints: int = 1) -> RecordedCheckpoint:
    return RecordedCheckpoint(
        index=index,
        number=1,
        begins=start,
        first=start,
        last=end - 1,
        next=end,
        records=end - start,
        outcome=CheckpointOutcome.COMMITTED,
        checkpoints=checkpoints,
    )


def given_up(index: int) -> GivenUp:
    return GivenUp(index=index, number=2, how=PartitionLeaving.REVOKED)


class Tasks:
    """Tasks 0 and 1 of a run, and observations in which their ids stand as the tasks were given them."""

    def __init__(self, plane: ControlPlane, run: Run, observations: Observations) -> None:
        self.plane = plane
        self.run = run
        self.sequence = 0
        self.observations = observations

    async def tell(
        self,
        task: int,
        *events: Event,
        recorded: int | None = None,
        is_over: bool = False,
        is_open: bool = False,
        hears: bool = True,
        sequence: int | None = None,
        partition: int = 0,
    ) -> None:
        """A heartbeat of a task, made after the answer to one that came a moment ago."""
        self.sequence += 1
        count = recorded if recorded is not None else max((event.index + 1 for event in events), default=0)
        told = ReportedPartition(topic="in", partition=partition, recorded=count, is_open=is_open, events=events)
        report = OffsetReport(
            heard_ms=int(self.plane.now.timestamp() * 1000) if hears else None,
            is_over=is_over,
            inits=(Init(task, 0),),
            partitions=(told,) if events or recorded is not None else (),
        )
        beat = replace(task_heartbeat(self.run.id, task=task, sequence=sequence or self.sequence), offsets=report)
        beat = msgspec.json.decode(msgspec.json.encode(beat), type=TaskHeartbeat)
        self.plane.pass_time(1)
        async with self.plane.uow() as uow:
            await offset_log.keep(uow, beat, database_epoch="this one", now=self.plane.now)
            await uow.commit()

    def see(self, *tasks: int) -> None:
        """The observer reads the coordinators: these tasks' ids are where their heartbeats report them."""
        live: dict[str, LiveTransaction] = {
            ID_OF[task]: live_transaction(ID_OF[task], state_of(producer_id=task, epoch=0)) for task in tasks
        }
        journal = JournalStatus(
            topic="__transaction_state",
            phase=ReadingPhase.LIVE,
            phase_since_ms=0,
            as_of_ms=int(self.plane.now.timestamp() * 1000),
        )
        self.observations.publish(
            Snapshot(
                cluster=CLUSTER,
                number=1,
                at_ms=0,
                transaction_journal=journal,
                group_journal=journal,
                transactions=MappingProxyType(live),
            )
        )

    async def verify(self, *, hours: float | None = None) -> PipelineCheck:
        since = None if hours is None else self.plane.now - timedelta(hours=hours)
        async with self.plane.uow() as uow:
            return await offset_log.verify(uow, self.observations, pipeline="flights", since=since, now=self.plane.now)

    async def check(self) -> int:
        async with self.plane.uow() as uow:
            new = await offset_log.check_live(uow, self.observations, pipeline="flights", now=self.plane.now)
            await uow.commit()
        return new

    async def handed_over(self, *, began: int) -> None:
        """Task 0 commits up to 10 and releases; task 1 takes over at `began`; both attempts are complete."""
        await self.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3))
        await self.tell(1, assigned(0, 2), at(1, began), committed(2, began, 30))
        await self.tell(0)
        self.see(0, 1)


async def tasks_of(plane: ControlPlane, observations: Observations | None = None) -> Tasks:
    run = await plane.running(tasks_per_instance=2)
    return Tasks(plane, run, observations or Observations(is_on=True))
