"""Importing the transactional ids of an application that moves here, so that it goes on fencing its old self."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.ids.api.schemas import ImportGiven
from app.core.ids.formulas import FORMULAS, IdFormula
from app.core.ids.imported import ImportPlan
from app.core.ids.service import imports as id_imports
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath, Why
from app.kit.web.dependencies import Uow, WiringDep, may

router = APIRouter(tags=["mappings"])
Author = Annotated[Principal, may(Verb.IMPORT_IDS)]


@router.get("/id-formulas", responses=refusals())
async def list_id_formulas(_: Annotated[Principal, may(Verb.VIEW)]) -> Shown[Items[IdFormula]]:
    """How Kafka Streams and spring-kafka name their transactional ids."""
    return Items(tuple(FORMULAS.values()))


@router.post("/pipelines/{name}/imported-ids/preview", responses=refusals(404, 413))
async def preview_import(
    name: NameInPath, body: ImportGiven, uow: Uow, wiring: WiringDep, by: Author
) -> Shown[ImportPlan]:
    """What an import would do, line by line, with everything that speaks against it; nothing is written."""
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
    """Import them all or none: any problem of any line refuses the whole, and nothing that is there is replaced.

    Only while no run lives: its tasks have been told already under which ids they read.
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
    """Give up every id that was imported for the pipeline, and what its partitions were assigned by that."""
    ids = await id_imports.forget_imports(uow, name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()
    return Items(ids)
