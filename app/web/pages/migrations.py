"""The migration: where are we, what is proven, what is next, how do I get back?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from app.domain.access import Principal, Verb
from app.domain.errors import FencelineError
from app.domain.migrations.gates import WAIVABLE
from app.domain.migrations.migration import Migration
from app.domain.migrations.mode import Mode, mode_of
from app.ports.unit_of_work import UnitOfWork
from app.services.migrating import asking, looking, planning
from app.services.migrating.viewing import view_of
from app.services.running import runs
from app.services.running.switching import unsafe_switch
from app.web.dependencies import Uow, Wiring, WiringDep, may
from app.web.pages.frame import screen
from app.web.pages.frame.errors import PageRoute
from app.web.pages.frame.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Viewer = Annotated[Principal, may(Verb.VIEW)]
After = Annotated[str | None, Query(max_length=1000)]
Why = Annotated[str, Form(max_length=1000)]
_PAGE = 25
_LOOK_AGAIN_S = 1.0


def looking_at_list(pipeline: str | None, after: str | None = None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        found = await asking.list_migrations(uow, pipeline=pipeline, after=after, limit=_PAGE)
        path = ("migrations",) if pipeline is None else ("pipelines", pipeline, "migrations")
        context = {
            "pipeline": pipeline,
            "migrations": found.items,
            "older": screen.url_of(*path, after=found.next_cursor) if found.next_cursor else None,
            **(await _of_others(uow) if pipeline is None else await _of_pipeline(uow, pipeline)),
        }
        title = "Migrations" if pipeline is None else f"Migrations of {pipeline}"
        concerns = None if pipeline is None else frozenset({f"pipeline:{pipeline}"})
        return Screen(template="migrations/list", title=title, context=context, concerns=concerns)

    return look


async def _of_pipeline(uow: UnitOfWork, pipeline: str) -> dict[str, object]:
    record = await uow.pipelines.get(pipeline)
    run = await uow.runs.find_live(pipeline)
    mode = mode_of(record.definition)
    return {
        "run": run,
        "mode": mode,
        "open_one": await uow.migrations.find_open(pipeline),
        "goals": [one for one in Mode if one is not mode and mode is not None],
        # Only where the next start would be refused is there anything to override.
        "switch": await unsafe_switch(uow, record) if run is None else "",
    }


async def _of_others(uow: UnitOfWork) -> dict[str, object]:
    return {
        "clusters": [one.name for one in await uow.clusters.list_all()],
        "foreign": await uow.foreign_migrations.list(None, limit=_PAGE),
    }


def looking_at_plan(pipeline: str, goal: Mode, wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del uow, principal
        plan, refusal = None, None
        try:
            plan = await planning.plan_migration(
                wiring.unit_of_work,
                wiring.brokers,
                wiring.migration_questions,
                wiring.observations,
                pipeline=pipeline,
                goal=goal,
                now=now,
            )
        except FencelineError as error:
            refusal = error.message
        context = {
            "pipeline": pipeline,
            "goal": goal,
            "plan": plan,
            "refusal": refusal,
            "waivable": sorted(WAIVABLE),
        }
        return Screen(template="migrations/plan", title=f"Plan: {pipeline} to {goal}", context=context)

    return look


def looking_at_one(migration_id: str, wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        view = await view_of(uow, wiring.observations, migration_id, now=now)
        migration = view.migration
        context = {
            "view": view,
            "migration": migration,
            "backs": [Mode.GENERATION, Mode.GROUP_ONLY],
        }
        return Screen(
            template="migrations/detail",
            title=f"Migration of {migration.pipeline}",
            context=context,
            concerns=frozenset({f"pipeline:{migration.pipeline}"}),
            look_again_s=_LOOK_AGAIN_S if migration.is_open else None,
        )

    return look


def looking_at_evidence(migration_id: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        migration = await asking.get_migration(uow, migration_id)
        context = {"migration": migration, "evidence": await asking.list_evidence(uow, migration_id)}
        return Screen(template="migrations/evidence", title=f"Evidence: {migration.pipeline}", context=context)

    return look


@router.get("/migrations")
@router.get("/migrations/stream")
async def show_all(request: Request, wiring: WiringDep, by: Viewer, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(None, after))


@router.get("/pipelines/{name}/migrations")
@router.get("/pipelines/{name}/migrations/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(name, after))


@router.get("/pipelines/{name}/migrations/plan")
async def show_plan(
    request: Request, wiring: WiringDep, by: Viewer, name: str, goal: Annotated[Mode, Query()] = Mode.V2
) -> Response:
    return await screen.page(request, wiring, by, looking_at_plan(name, goal, wiring), is_live=False)


@router.post("/pipelines/{name}/migrations")
async def begin(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_MIGRATION)],
    name: str,
    goal: Annotated[Mode, Form()],
    waive_transaction_timeout: Why = "",
    waive_abort_sweep: Why = "",
    waive_audited: Why = "",
    why: Why = "",
) -> Response:
    given = {
        "transaction_timeout": waive_transaction_timeout,
        "abort_sweep": waive_abort_sweep,
        "audited": waive_audited,
    }
    try:
        migration = await asking.start_migration(
            uow,
            wiring.brokers,
            pipeline=name,
            goal=goal,
            waived={clause: reason for clause, reason in given.items() if reason.strip()},
            by=by,
            why=why or None,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        at = ("pipelines", name, "migrations")
        return await screen.page(request, wiring, by, looking_at_list(name), refused=error, at=at)
    return screen.see("migrations", migration.id, said="migration-begun")


@router.post("/pipelines/{name}/switch-at-once")
async def switch_at_once(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_RUN)],
    name: str,
    why: Why = "",
) -> Response:
    try:
        run = await runs.start_run(
            uow,
            wiring.brokers,
            pipeline=name,
            allowed=wiring.allowed_options,
            by=by,
            why=why or None,
            now=wiring.clock.now(),
            switch_at_once=True,
        )
        await uow.commit()
    except FencelineError as error:
        at = ("pipelines", name, "migrations")
        return await screen.page(request, wiring, by, looking_at_list(name), refused=error, at=at)
    return screen.see("runs", run.id, said="started")


@router.get("/migrations/{migration_id}")
@router.get("/migrations/{migration_id}/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, migration_id: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_one(migration_id, wiring))


@router.get("/migrations/{migration_id}/evidence")
async def show_evidence(request: Request, wiring: WiringDep, by: Viewer, migration_id: str) -> Response:
    return await screen.page(request, wiring, by, looking_at_evidence(migration_id), is_live=False)


@router.post("/migrations/{migration_id}/pause")
async def pause(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.PAUSE_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()
    return await _act(
        request,
        wiring,
        uow,
        by,
        migration_id,
        lambda: asking.pause_migration(uow, migration_id, by=by, why=why or None, now=now),
        said="migration-paused",
    )


@router.post("/migrations/{migration_id}/resume")
async def resume(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.RESUME_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()
    return await _act(
        request,
        wiring,
        uow,
        by,
        migration_id,
        lambda: asking.resume_migration(uow, migration_id, by=by, why=why or None, now=now),
        said="migration-resumed",
    )


@router.post("/migrations/{migration_id}/rollback")
async def roll_back(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.ROLL_BACK_MIGRATION)],
    migration_id: str,
    to: Annotated[Mode, Form()],
    why: Why = "",
) -> Response:
    now = wiring.clock.now()

    async def act() -> Migration:
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.roll_back(uow, migration_id, look, to=to, by=by, why=why or None, now=now)

    return await _act(request, wiring, uow, by, migration_id, act, said="migration-turned")


@router.post("/migrations/{migration_id}/abort")
async def abort(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.ABORT_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()

    async def act() -> Migration:
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.abort_migration(uow, migration_id, look, by=by, why=why or None, now=now)

    return await _act(request, wiring, uow, by, migration_id, act, said="migration-aborted")


@router.post("/migrations/{migration_id}/fence")
async def fence(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.FENCE_TRANSACTION)],
    migration_id: str,
    transactional_id: Annotated[str, Form(min_length=1, max_length=1000)],
    why: Why = "",
) -> Response:
    now = wiring.clock.now()

    async def act() -> Migration:
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.fence_id(
            uow, migration_id, look, transactional_id=transactional_id, by=by, why=why or None, now=now
        )

    return await _act(request, wiring, uow, by, migration_id, act, said="migration-fence")


async def _act(
    request: Request,
    wiring: Wiring,
    uow: UnitOfWork,
    by: Principal,
    migration_id: str,
    act: Callable[[], Awaitable[Migration]],
    *,
    said: str,
) -> Response:
    try:
        await act()
        await uow.commit()
    except FencelineError as error:
        look = looking_at_one(migration_id, wiring)
        return await screen.page(request, wiring, by, look, refused=error, at=("migrations", migration_id))
    return screen.see("migrations", migration_id, said=said)
