"""REST: import the transactional ids of an application that moves to Fenceline, to fence its old producers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.ids.api.schemas import ImportGiven
from app.core.ids.formulas import FORMULAS, IdFormula
from app.core.ids.imported import ImportPlan
from app.core.ids.service import imports as id_imports
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath, Why
from app.kit.web.dependencies import Uow

router = APIRouter(tags=["mappings"])
Author = Annotated[Principal, may(Verb.IMPORT_IDS)]


@router.get("/id-formulas", responses=refusals())
async def list_id_formulas(_: Viewer) -> Shown[Items[IdFormula]]:
    """List the formulas of Kafka Streams and spring-kafka for transactional ids."""
    return Items(tuple(FORMULAS.values()))


@router.post("/pipelines/{name}/imported-ids/preview", responses=refusals(404, 413))
async def preview_import(
    name: NameInPath, body: ImportGiven, uow: Uow, wiring: WiringDep, by: Author
) -> Shown[ImportPlan]:
    """Preview an import, line by line, with problems and warnings; nothing is written."""
    return await id_imports.plan_import(
        uow, wiring.brokers, wiring.observations, pipeline=name, wish=body.wish(), by=by, now=wiring.clock.now()
    )


@router.post(
    "/pipelines/{name}/imported-ids",
    status_code=201,
    response_model=Shown[ImportPlan],
    responses=refusals(404, 409, 413),
)
async def import_ids(
    name: NameInPath, body: ImportGiven, uow: Uow, wiring: WiringDep, once: OnceDep, by: Author
) -> Response:
    """Import all of them or none: a problem of any line refuses the whole import, and no existing id is replaced.

    Only without a live run, since its tasks have their ids already.
    """

    async def act() -> ImportPlan:
        return await id_imports.import_ids(
            uow,
            wiring.brokers,
            wiring.observations,
            pipeline=name,
            wish=body.wish(),
            by=by,
            why=body.why,
            now=wiring.clock.now(),
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.delete("/pipelines/{name}/imported-ids", responses=refusals(404, 409))
async def forget_imported_ids(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.FORGET_IMPORTED_IDS)],
    why: Annotated[Why, Query()] = None,
) -> Shown[Items[str]]:
    """Release every imported id of the pipeline, with its assignments to partitions."""
    ids = await id_imports.forget_imports(uow, name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()
    return Items(ids)
