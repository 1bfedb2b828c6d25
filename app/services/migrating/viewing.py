"""A migration as its page shows it: where it is, what is proven, what is next, and each instance with what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from app.domain.migrations.alarms import Alarm
from app.domain.migrations.evidence import task_ids
from app.domain.migrations.judged import Judged
from app.domain.migrations.look import IdNow, Incarnation, InstanceNow, Look, TaskNow
from app.domain.migrations.migration import Fenced, Migration, Stage, StepKind
from app.domain.migrations.plan import WAY_BACK, WHY, stages_to
from app.domain.migrations.record import Evidence
from app.ports.unit_of_work import UnitOfWork
from app.services.migrating.looking import look_at
from app.services.migrating.planning import usual_s
from app.services.observing.observations import Observations


class StageMark(msgspec.Struct, frozen=True, kw_only=True):
    """standing: done, current or next."""

    stage: Stage
    standing: str


class InstanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """tasks: of the current lease. is_next: whether the next bounce is its own."""

    now: InstanceNow
    tasks: tuple[TaskNow, ...]
    is_moving: bool


class IdRow(msgspec.Struct, frozen=True, kw_only=True):
    """An id, whose it is by the newest word; partition: the one that it belongs to, empty for a task's own.

    may_fence: nobody holds it and the first bounce waits for it.
    """

    partition: str
    transactional_id: str
    now: IdNow | None
    holder: TaskNow | None
    fence: Fenced | None
    may_fence: bool


class MigrationView(msgspec.Struct, frozen=True, kw_only=True):
    migration: Migration
    marks: tuple[StageMark, ...]
    gate: tuple[Judged, ...]
    instances: tuple[InstanceRow, ...]
    ids: tuple[IdRow, ...]
    evidence: Sequence[Evidence]
    alarms: Sequence[Alarm]
    usually_s: float | None
    why: str
    way_back: str

    @property
    def proven(self) -> int:
        return sum(one.is_open for one in self.gate)

    @property
    def moved(self) -> int:
        """Instances that run in the mode that the stage leads to."""
        return sum(not one.is_moving for one in self.instances)


async def view_of(uow: UnitOfWork, observations: Observations, migration_id: str, *, now: datetime) -> MigrationView:
    """Raises NotFoundError."""
    migration = await uow.migrations.get(migration_id)
    look = await look_at(uow, observations.of(migration.cluster), migration, now=now) if migration.is_open else None
    step = migration.step
    return MigrationView(
        migration=migration,
        marks=_marks(migration),
        gate=migration.gate if migration.is_open else (),
        instances=() if look is None else _instances(migration, look),
        ids=() if look is None else _ids(migration, look),
        evidence=await uow.migrations.evidence(migration_id),
        alarms=await uow.migrations.alarms(migration_id),
        usually_s=(await usual_s(uow, migration)).get(step.kind) if step is not None else None,
        why=WHY[migration.stage],
        way_back=WAY_BACK[migration.stage],
    )


def _marks(migration: Migration) -> tuple[StageMark, ...]:
    stages = stages_to(migration.goal)
    if migration.stage not in stages:
        return ()
    at = stages.index(migration.stage)

    def standing(index: int) -> str:
        if index == at:
            return "done" if migration.state == "done" else "current"
        return "done" if index < at else "next"

    return tuple(StageMark(stage=stage, standing=standing(index)) for index, stage in enumerate(stages))


def _instances(migration: Migration, look: Look) -> tuple[InstanceRow, ...]:
    step = migration.step
    moving = step.ordinal if step is not None and step.kind is StepKind.BOUNCE else None
    return tuple(
        InstanceRow(
            now=one,
            tasks=tuple(task for task in look.tasks if (task.ordinal, task.lease) == (one.ordinal, one.lease)),
            is_moving=one.ordinal == moving,
        )
        for one in look.instances
    )


def _ids(migration: Migration, look: Look) -> tuple[IdRow, ...]:
    of_partitions = {name: partition for partition, name in sorted(look.partitions.items(), reverse=True)}
    names = [*of_partitions, *(name for name in task_ids(migration, look) if name not in of_partitions)]
    rows = [_id(migration, look, name, of_partitions.get(name, "")) for name in names]
    return tuple(sorted(rows, key=lambda row: (_place(row.partition), row.transactional_id)))


def _place(partition: str) -> tuple[int, str, int]:
    """Partitions before tasks, by topic and number."""
    topic, _, number = partition.rpartition("-")
    return (0 if topic else 1), topic, int(number or 0)


def _id(migration: Migration, look: Look, name: str, partition: str) -> IdRow:
    now = look.ids.get(name)
    newest = None if now is None else Incarnation(name, now.producer_id, now.producer_epoch)
    holder = None if newest is None else look.holder_of(newest)
    fence = migration.fence_of(name)
    is_ours = fence is not None and fence.incarnation == newest
    return IdRow(
        partition=partition,
        transactional_id=name,
        now=now,
        holder=holder,
        fence=fence if is_ours else None,
        may_fence=bool(partition)
        and migration.stage is Stage.FIRST_BOUNCE
        and migration.step is None
        and now is not None
        and holder is None
        and not is_ours,
    )
