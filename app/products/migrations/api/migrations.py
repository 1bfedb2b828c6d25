"""REST of migrations: start, pause, resume, roll back, abort, and the evidence."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.runs.api.run_schemas import Reason
from app.core.runs.api.runs import NO_REASON
from app.core.runs.mode import Mode
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import IdInPath, Name, NameInPath
from app.kit.web.dependencies import Uow
from app.products.migrations.alarms import Alarm
from app.products.migrations.api.migration_schemas import Gate, IdToFence, MigrationGiven, RollbackGiven
from app.products.migrations.migration import Migration
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.record import Evidence
from app.products.migrations.service import asking, looking, planning
from app.products.migrations.service.planning import MigrationPlan

router = APIRouter(tags=["migrations"])


@router.post(
    "/pipelines/{name}/migrations", status_code=201, response_model=Shown[Migration], responses=refusals(404, 409, 413)
)
async def start_migration(
    name: NameInPath,
    body: MigrationGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_MIGRATION)],
) -> Response:
    """Start the migration of the pipeline's live run. The first stage only checks; the others follow."""

    async def act() -> Migration:
        return await asking.start_migration(
            uow,
            wiring.brokers,
            pipeline=name,
            goal=body.goal,
            waived=body.waived,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/pipelines/{name}/migrations/plan", responses=refusals(404, 409, 422))
async def plan_migration(
    name: NameInPath,
    wiring: WiringDep,
    _: Viewer,
    goal: Annotated[Mode, Query()] = Mode.V2,
) -> Shown[MigrationPlan]:
    """Show the preflight as of now, and each step with its usual time and its rollback. Changes nothing."""
    return await planning.plan_migration(
        wiring.unit_of_work,
        wiring.brokers,
        wiring.part(MigrationQuestions),
        wiring.observations,
        pipeline=name,
        goal=goal,
        now=wiring.clock.now(),
    )


@router.get("/migrations", responses=refusals(404))
async def list_migrations(
    uow: Uow,
    _: Viewer,
    pipeline: Annotated[Name | None, Query()] = None,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[Migration]]:
    """List migrations, newest first, of all pipelines or one."""
    return await asking.list_migrations(uow, pipeline=pipeline, after=after, limit=limit)


@router.get("/migrations/{migration_id}", responses=refusals(404))
async def get_migration(migration_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Migration]:
    """Get one migration: its stage, steps, fenced ids, and missing conditions."""
    return await asking.get_migration(uow, migration_id)


@router.get("/migrations/{migration_id}/gate", responses=refusals(404))
async def get_gate(migration_id: IdInPath, uow: Uow, _: Viewer) -> Gate:
    """Get the conditions that are checked now, as the newest check found them. Checks run every second."""
    migration = await asking.get_migration(uow, migration_id)
    return Gate(clauses=list(migration.gate))


@router.get("/migrations/{migration_id}/evidence", responses=refusals(404))
async def list_evidence(migration_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Items[Evidence]]:
    """List the evidence of each gate and step, with the journal records, oldest first."""
    return Items(await asking.list_evidence(uow, migration_id))


@router.get("/migrations/{migration_id}/alarms", responses=refusals(404))
async def list_alarms(migration_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Items[Alarm]]:
    """List the migration's alerts with the processes concerned, oldest first."""
    return Items(await asking.list_alarms(uow, migration_id))


@router.post("/migrations/{migration_id}/pause", response_model=Shown[Migration], responses=refusals(404, 409, 413))
async def pause_migration(
    migration_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.PAUSE_MIGRATION)],
    body: Reason = NO_REASON,
) -> Response:
    """Begin no further step. An instance between two leases still gets its next lease."""

    async def act() -> Migration:
        now = wiring.clock.now()
        return await asking.pause_migration(uow, migration_id, by=by, why=body.why, now=now)

    answer = await once.do(act)
    await uow.commit()
    return answer


@router.post("/migrations/{migration_id}/resume", response_model=Shown[Migration], responses=refusals(404, 409, 413))
async def resume_migration(
    migration_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.RESUME_MIGRATION)],
    body: Reason = NO_REASON,
) -> Response:
    """Resume, and retry a late step with its full time limit."""

    async def act() -> Migration:
        now = wiring.clock.now()
        return await asking.resume_migration(uow, migration_id, by=by, why=body.why, now=now)

    answer = await once.do(act)
    await uow.commit()
    return answer


@router.post("/migrations/{migration_id}/rollback", response_model=Shown[Migration], responses=refusals(404, 409, 413))
async def roll_back(
    migration_id: IdInPath,
    body: RollbackGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.ROLL_BACK_MIGRATION)],
) -> Response:
    """Roll back from any stage: first to generation, and from there to group_only."""

    async def act() -> Migration:
        now = wiring.clock.now()
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.roll_back(uow, migration_id, look, to=body.to, by=by, why=body.why, now=now)

    answer = await once.do(act)
    await uow.commit()
    return answer


@router.post("/migrations/{migration_id}/abort", response_model=Shown[Migration], responses=refusals(404, 409, 413))
async def abort_migration(
    migration_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.ABORT_MIGRATION)],
    body: Reason = NO_REASON,
) -> Response:
    """Abort it. Every instance keeps its mode, and another migration may continue from there."""

    async def act() -> Migration:
        now = wiring.clock.now()
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.abort_migration(uow, migration_id, look, by=by, why=body.why, now=now)

    answer = await once.do(act)
    await uow.commit()
    return answer


@router.post("/migrations/{migration_id}/fence", response_model=Shown[Migration], responses=refusals(404, 409, 413))
async def fence_id(
    migration_id: IdInPath,
    body: IdToFence,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.FENCE_TRANSACTION)],
) -> Response:
    """Fence an id that no task takes over, as the next step of the first bounce."""

    async def act() -> Migration:
        now = wiring.clock.now()
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.fence_id(
            uow, migration_id, look, transactional_id=body.transactional_id, by=by, why=body.why, now=now
        )

    answer = await once.do(act)
    await uow.commit()
    return answer
