"""The view of a migration's page: the stage, the evidence, the next step, and each instance with its ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import Archived, TransactionalIdOwner
from app.core.observing.service.observations import Observations
from app.core.runs.store.runs import RunStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.words import duration
from app.products.migrations.alarms import Alarm
from app.products.migrations.decision import to_bounce
from app.products.migrations.evidence import task_ids
from app.products.migrations.judged import Judged
from app.products.migrations.look import IdNow, Incarnation, InstanceNow, MigrationLook, TaskNow
from app.products.migrations.migration import FencedId, Migration, Stage
from app.products.migrations.plan import WAY_BACK, WHY, stages_to
from app.products.migrations.record import Evidence
from app.products.migrations.service.looking import look_at
from app.products.migrations.service.planning import usual_s
from app.products.migrations.store.migrations import MigrationStore


class StageMark(msgspec.Struct, frozen=True, kw_only=True):
    """`standing`: done, current or next."""

    stage: Stage
    standing: str


class InstanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """tasks: of the current lease. is_moved: whether the stage has moved the instance, or will not move it."""

    now: InstanceNow
    tasks: tuple[TaskNow, ...]
    is_moved: bool


class IdRow(msgspec.Struct, frozen=True, kw_only=True):
    """An id with its newest owner; partition: its input partition, empty for a task's own id.

    may_fence: no live task holds it, and the first bounce waits for it. archived: a migration has retired it.
    lives: this migration retired it, and it was initialised again since.
    """

    partition: str
    transactional_id: str
    now: IdNow | None
    holder: TaskNow | None
    fence: FencedId | None
    may_fence: bool
    archived: Archived | None
    lives: bool


class MigrationView(msgspec.Struct, frozen=True, kw_only=True):
    """waited: the waiting time for its step or its gate, in words. given_up: Fenceline's fences of retired ids.

    stopped_by_alarm: its newest alert is the complete reason of the stop.
    """

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
    waited: str
    given_up: tuple[FencedId, ...]
    stopped_by_alarm: bool

    @property
    def proven(self) -> int:
        return sum(one.is_open for one in self.gate)

    @property
    def moved(self) -> int:
        return sum(one.is_moved for one in self.instances)

    @property
    def modes(self) -> str:
        """The number of instances in each mode: `1 generation, 2 v2`."""
        found = Counter("of unknown mode" if one.now.mode is None else str(one.now.mode) for one in self.instances)
        return ", ".join(f"{count} {mode}" for mode, count in sorted(found.items()))


async def view_of(uow: UnitOfWork, observations: Observations, migration_id: str, *, now: datetime) -> MigrationView:
    """View one migration. Raises NotFoundError."""
    migration = await uow.of(MigrationStore).get(migration_id)
    look = await look_at(uow, observations.of(migration.cluster), migration, now=now) if migration.is_open else None
    step, alarms = migration.step, await uow.of(MigrationStore).alarms(migration_id)
    owned = await _owned(uow, migration, look)
    since = step.began_at if step is not None else migration.last_step_at
    fences = [
        migration.gave_up(name) for name in sorted({one.incarnation.transactional_id for one in migration.fenced})
    ]
    return MigrationView(
        migration=migration,
        marks=_marks(migration),
        gate=migration.gate if migration.is_open else (),
        instances=() if look is None else _instances(migration, look),
        ids=() if look is None else _ids(migration, look, owned),
        evidence=await uow.of(MigrationStore).evidence(migration_id),
        alarms=alarms,
        usually_s=(await usual_s(uow, migration)).get(step.kind) if step is not None else None,
        why=WHY[migration.stage],
        way_back=WAY_BACK[migration.stage],
        waited=duration(round((now - since).total_seconds() * 1000)),
        given_up=tuple(one for one in fences if one is not None and one.at >= migration.started_at),
        stopped_by_alarm=bool(alarms) and alarms[-1].sentence == migration.missing,
    )


async def _owned(uow: UnitOfWork, migration: Migration, look: MigrationLook | None) -> dict[str, TransactionalIdOwner]:
    if look is None:
        return {}
    run = await uow.of(RunStore).get(migration.run_id)
    names = {*look.partitions.values(), *task_ids(migration, look)}
    owners = await uow.of(TransactionalIdStore).owners(kafka_cluster_id=run.kafka_cluster_id, ids=names)
    return {one.transactional_id: one for one in owners}


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


def _instances(migration: Migration, look: MigrationLook) -> tuple[InstanceRow, ...]:
    left = {one.ordinal for one in to_bounce(migration, look)}
    return tuple(
        InstanceRow(
            now=one,
            tasks=tuple(task for task in look.tasks if (task.ordinal, task.lease) == (one.ordinal, one.lease)),
            is_moved=one.ordinal not in left,
        )
        for one in look.instances
    )


def _ids(migration: Migration, look: MigrationLook, owned: Mapping[str, TransactionalIdOwner]) -> tuple[IdRow, ...]:
    of_partitions = {name: partition for partition, name in sorted(look.partitions.items(), reverse=True)}
    names = [*of_partitions, *(name for name in task_ids(migration, look) if name not in of_partitions)]
    rows = [_id(migration, look, name, of_partitions.get(name, ""), owned.get(name)) for name in names]
    return tuple(sorted(rows, key=lambda row: (_place(row.partition), row.transactional_id)))


def _place(partition: str) -> tuple[int, str, int]:
    """Order partitions before tasks, by topic and number."""
    topic, _, number = partition.rpartition("-")
    return (0 if topic else 1), topic, int(number or 0)


def _id(
    migration: Migration, look: MigrationLook, name: str, partition: str, owner: TransactionalIdOwner | None
) -> IdRow:
    now = look.ids.get(name)
    newest = None if now is None else Incarnation(name, now.producer_id, now.producer_epoch)
    holder = None if newest is None else look.holder_of(newest)
    fence = migration.fence_of(name)
    given_up = migration.gave_up(name) if owner is not None and owner.archived is not None else None
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
        archived=None if owner is None else owner.archived,
        lives=given_up is not None and newest not in (None, given_up.incarnation) and newest not in look.fenced_by_hand,
    )
