"""The plan of a migration, its start, and the switch in one step."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from app.core.access.signed_in import may
from app.core.pipelines.pages.tabs import tabs_of
from app.core.runs.mode import RECOMMENDED, Mode
from app.core.runs.service import runs
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen
from app.products.migrations.gates import WAIVABLE
from app.products.migrations.pages.migrations import Viewer, Why, looking_at_list
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service import asking, planning

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def looking_at_plan(pipeline: str, goal: Mode, wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        plan, refusal = None, None
        try:
            plan = await planning.plan_migration(
                wiring.unit_of_work,
                wiring.brokers,
                wiring.part(MigrationQuestions),
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
            "recommended": RECOMMENDED,
            "plan": plan,
            "refusal": refusal,
            "waivable": sorted(WAIVABLE),
        }
        tabs = await tabs_of(uow, pipeline, "migrations")
        return Screen(template="migrations/plan", title=f"Plan: {pipeline} to {goal}", context=context, tabs=tabs)

    return look


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
