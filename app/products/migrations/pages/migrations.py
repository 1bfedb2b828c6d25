"""The pages of migrations: the list, one migration with its gate and rollback, and its evidence."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pages.tabs import tabs_of
from app.core.pipelines.store import PipelineStore
from app.core.runs.mode import RECOMMENDED, Mode, mode_of
from app.core.runs.service.switching import unsafe_switch
from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.migrations.service import asking
from app.products.migrations.service.viewing import view_of
from app.products.migrations.store.foreign import ForeignMigrationStore
from app.products.migrations.store.migrations import MigrationStore

router = APIRouter(route_class=PageRoute, include_in_schema=False)
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
            "pages": links_of(found.next_cursor, partial(screen.url_of, *path)),
            **(await _of_others(uow) if pipeline is None else await _of_pipeline(uow, pipeline)),
        }
        title = "Migrations" if pipeline is None else f"Migrations of {pipeline}"
        concerns = None if pipeline is None else frozenset({f"pipeline:{pipeline}"})
        tabs = None if pipeline is None else await tabs_of(uow, pipeline, "migrations")
        return Screen(template="migrations/list", title=title, context=context, concerns=concerns, tabs=tabs)

    return look


async def _of_pipeline(uow: UnitOfWork, pipeline: str) -> dict[str, object]:
    record = await uow.of(PipelineStore).get(pipeline)
    run = await uow.of(RunStore).find_live(pipeline)
    mode = mode_of(record.definition)
    return {
        "run": run,
        "mode": mode,
        "open_one": await uow.of(MigrationStore).find_open(pipeline),
        "modes": list(Mode),
        "recommended": RECOMMENDED,
        "other_goals": [one for one in Mode if one not in (mode, RECOMMENDED)],
        # An override is offered only where the next start would be refused.
        "switch": await unsafe_switch(uow, record) if run is None else "",
    }


async def _of_others(uow: UnitOfWork) -> dict[str, object]:
    return {
        "clusters": [one.name for one in await uow.of(ClusterStore).list_all()],
        "foreign": await uow.of(ForeignMigrationStore).list(None, limit=_PAGE),
    }


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
            tabs=await tabs_of(uow, migration.pipeline, "migrations"),
        )

    return look


def looking_at_evidence(migration_id: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        migration = await asking.get_migration(uow, migration_id)
        context = {"migration": migration, "evidence": await asking.list_evidence(uow, migration_id)}
        tabs = await tabs_of(uow, migration.pipeline, "migrations")
        title = f"Evidence: {migration.pipeline}"
        return Screen(template="migrations/evidence", title=title, context=context, tabs=tabs)

    return look


@router.get("/migrations")
@router.get("/migrations/stream")
async def show_all(request: Request, wiring: WiringDep, by: Viewer, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(None, after))


@router.get("/pipelines/{name}/migrations")
@router.get("/pipelines/{name}/migrations/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(name, after))


@router.get("/migrations/{migration_id}")
@router.get("/migrations/{migration_id}/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, migration_id: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_one(migration_id, wiring))


@router.get("/migrations/{migration_id}/evidence")
async def show_evidence(request: Request, wiring: WiringDep, by: Viewer, migration_id: str) -> Response:
    return await screen.page(request, wiring, by, looking_at_evidence(migration_id), is_live=False)
