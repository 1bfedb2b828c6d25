"""Migrations of applications that Fenceline does not start: the evidence of each stage from the brokers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.clusters.store import ClusterStore
from app.core.runs.api.run_schemas import Reason
from app.core.runs.api.runs import NO_REASON
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import IdInPath, Name, NameInPath
from app.kit.web.dependencies import Uow
from app.products.migrations.api.foreign_schemas import ForeignMigrationGiven
from app.products.migrations.foreign import ForeignMigration
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service import foreign
from app.products.migrations.service.foreign import ForeignView
from app.products.migrations.store.foreign import ForeignMigrationStore

router = APIRouter(tags=["migrations"])


@router.post(
    "/clusters/{name}/foreign-migrations",
    status_code=201,
    response_model=Shown[ForeignMigration],
    responses=refusals(404, 409, 413),
)
async def watch_foreign(
    name: NameInPath,
    body: ForeignMigrationGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_MIGRATION)],
) -> Response:
    """Watch the migration of an application that Fenceline does not start; its operator bounces it."""

    async def act() -> ForeignMigration:
        now = wiring.clock.now()
        return await foreign.watch_foreign(
            uow, cluster=name, group=body.group, prefix=body.prefix, by=by, why=body.why, now=now
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/foreign-migrations", responses=refusals(404))
async def list_foreign(
    uow: Uow,
    _: Viewer,
    cluster: Annotated[Name | None, Query()] = None,
    limit: Limit = 50,
) -> Shown[Items[ForeignMigration]]:
    """List them, newest first, for all clusters or one."""
    if cluster is not None:
        await uow.of(ClusterStore).get(cluster)
    found = await uow.of(ForeignMigrationStore).list(cluster, limit=limit)
    return Items(found)


@router.get("/foreign-migrations/{migration_id}", responses=refusals(404))
async def get_foreign(migration_id: IdInPath, wiring: WiringDep, _: Viewer) -> Shown[ForeignView]:
    """Get its stage, the conditions that hold by the brokers' state, and the evidence that is unavailable."""
    return await foreign.view_foreign(
        wiring.unit_of_work, wiring.part(MigrationQuestions), wiring.observations, migration_id, now=wiring.clock.now()
    )


@router.post(
    "/foreign-migrations/{migration_id}/go-on",
    response_model=Shown[ForeignMigration],
    responses=refusals(404, 409, 413),
)
async def go_on(
    migration_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_MIGRATION)],
    body: Reason = NO_REASON,
) -> Response:
    """Record that its operator begins the next stage, with the proven conditions. Others need a reason."""
    view = await foreign.view_foreign(
        wiring.unit_of_work, wiring.part(MigrationQuestions), wiring.observations, migration_id, now=wiring.clock.now()
    )

    async def act() -> ForeignMigration:
        now = wiring.clock.now()
        return await foreign.go_on(uow, migration_id, view.look, by=by, why=body.why, now=now)

    answer = await once.do(act)
    await uow.commit()
    return answer
