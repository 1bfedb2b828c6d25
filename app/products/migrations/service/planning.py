"""Plan a migration: the preflight and the steps. Writes nothing."""

from __future__ import annotations

import statistics
from datetime import datetime

import msgspec
from msgspec.structs import replace

from app.core.clusters.brokers import Brokers
from app.core.observing.service.observations import Observations
from app.core.runs.mode import Mode
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.products.migrations.decision import judged
from app.products.migrations.evidence import STABLE_FOR
from app.products.migrations.judged import Judged
from app.products.migrations.look import InstanceNow, MigrationLook
from app.products.migrations.migration import GroupSeen, Migration, MigrationStepKind, StepState
from app.products.migrations.plan import BOUNCE_S, PlannedStep, planned
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service.asking import migration_to
from app.products.migrations.service.looking import look_at
from app.products.migrations.store.migrations import MigrationStore


class MigrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """preflight: its conditions now. measured: whether the time of a bounce was measured in this pipeline."""

    pipeline: str
    goal: Mode
    preflight: tuple[Judged, ...]
    steps: tuple[PlannedStep, ...]
    instances: tuple[InstanceNow, ...]
    measured: bool

    @property
    def usually_s(self) -> float:
        """The usual duration of all steps without the audit."""
        return sum(one.usually_s or 0 for one in self.steps)


async def plan_migration(
    unit_of_work: UnitOfWorkFactory,
    brokers: Brokers,
    questions: MigrationQuestions,
    observations: Observations,
    *,
    pipeline: str,
    goal: Mode,
    now: datetime,
) -> MigrationPlan:
    """Plan the migration. Raises as `start_migration` if it cannot start."""
    async with unit_of_work() as uow:
        draft = await migration_to(uow, brokers, pipeline=pipeline, goal=goal, by="", why=None, waived={}, now=now)
        look = await look_at(uow, observations.of(draft.cluster), draft, now=now)
        bounces = await _bounces_s(uow, pipeline)
    ids = (*sorted(set(look.partitions.values())), *look.task_ids)
    group = await questions.group(draft)
    preflight = await questions.preflight(draft, ids)
    async with unit_of_work() as uow:
        look = await look_at(uow, observations.of(draft.cluster), draft, group=group, now=now)
    look = replace(look, preflight=preflight)
    if look.group is not None:
        # A stable group needs several checks, which the migration itself makes.
        draft = replace(draft, group_seen=GroupSeen(group=look.group, since=now - STABLE_FOR, at=now))
    return MigrationPlan(
        pipeline=pipeline,
        goal=goal,
        preflight=tuple(_as_one_look_has_it(one, look) for one in judged(draft, look)),
        steps=planned(
            {one.ordinal: one.mode for one in look.instances},
            goal,
            partition_ids=len(set(look.partitions.values())),
            task_ids=len(look.task_ids),
            bounce_s=statistics.median(bounces) if bounces else BOUNCE_S,
        ),
        instances=look.instances,
        measured=bool(bounces),
    )


def _as_one_look_has_it(clause: Judged, look: MigrationLook) -> Judged:
    """Judge that the group is stable now; a single view cannot show that it stays so."""
    if clause.name != "group_stable" or not clause.is_open or look.group is None:
        return clause
    seen = f"stable now, with {len(look.group.members)} members: the preflight checks again, over some seconds"
    return replace(clause, seen=seen)


async def usual_s(uow: UnitOfWork, migration: Migration) -> dict[MigrationStepKind, float]:
    """Return the usual duration of each step in this pipeline's migrations; the plan's default if there is none."""
    bounces = await _bounces_s(uow, migration.pipeline)
    return {MigrationStepKind.BOUNCE: statistics.median(bounces) if bounces else BOUNCE_S}


async def _bounces_s(uow: UnitOfWork, pipeline: str) -> list[float]:
    """Return the durations of the completed bounces in the newest migrations."""
    page = await uow.of(MigrationStore).list(pipeline=pipeline, after=None, limit=5)
    return [
        (step.ended_at - step.began_at).total_seconds()
        for one in page.items
        for step in one.steps
        if step.kind is MigrationStepKind.BOUNCE and step.state is StepState.DONE and step.ended_at is not None
    ]
