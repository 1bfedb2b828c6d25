"""The page of a foreign migration: the evidence from the brokers, and the evidence that is missing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import may
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen
from app.products.migrations.foreign import ForeignStage
from app.products.migrations.pages.migrations import Viewer, Why, looking_at_list
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service import foreign

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def looking_at_foreign(migration_id: str, wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del uow, principal
        view = await foreign.view_foreign(
            wiring.unit_of_work, wiring.part(MigrationQuestions), wiring.observations, migration_id, now=now
        )
        return Screen(
            template="migrations/foreign",
            title=f"Migration of the group {view.migration.group}",
            context={"view": view, "migration": view.migration, "stages": list(ForeignStage)},
        )

    return look


@router.post("/migrations/foreign")
async def watch_foreign(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_MIGRATION)],
    cluster: Annotated[str, Form(max_length=200)],
    group: Annotated[str, Form(min_length=1, max_length=1000)],
    prefix: Annotated[str, Form(min_length=1, max_length=500)],
    why: Why = "",
) -> Response:
    now = wiring.clock.now()
    try:
        migration = await foreign.watch_foreign(
            uow, cluster=cluster, group=group, prefix=prefix, by=by, why=why or None, now=now
        )
        await uow.commit()
    except FencelineError as error:
        return await screen.page(request, wiring, by, looking_at_list(None), refused=error, at=("migrations",))
    return screen.see("foreign-migrations", migration.id, said="migration-watched")


@router.get("/foreign-migrations/{migration_id}")
async def show_foreign(request: Request, wiring: WiringDep, by: Viewer, migration_id: str) -> Response:
    return await screen.page(request, wiring, by, looking_at_foreign(migration_id, wiring), is_live=False)


@router.post("/foreign-migrations/{migration_id}/go-on")
async def go_on(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()
    try:
        view = await foreign.view_foreign(
            wiring.unit_of_work, wiring.part(MigrationQuestions), wiring.observations, migration_id, now=now
        )
        await foreign.go_on(uow, migration_id, view.look, by=by, why=why or None, now=now)
        await uow.commit()
    except FencelineError as error:
        at = ("foreign-migrations", migration_id)
        return await screen.page(request, wiring, by, looking_at_foreign(migration_id, wiring), refused=error, at=at)
    return screen.see("foreign-migrations", migration_id, said="migration-moved")
