"""Files that no committed reference names nor ever will: looking for them, and deleting them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from app.core.access.repeated_commands import OnceDep
from app.core.runs.api.run_schemas import Reason
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow, WiringDep, may
from app.products.files.api.orphan_schemas import CollectGiven
from app.products.files.orphan_look import OrphanLook
from app.products.files.service import orphans
from app.products.files.service.orphans import Orphans

router = APIRouter(prefix="/pipelines/{name}/files/orphans", tags=["files"])
NO_REASON = Reason()


@router.get("", responses=refusals(404))
async def get_orphans(name: NameInPath, uow: Uow, _: Annotated[Principal, may(Verb.VIEW)]) -> Shown[Orphans]:
    """What the newest look for orphans found, what is at work now, and what was collected last.

    Of each kind and end the newest five are kept.
    """
    return await orphans.orphans_of(uow, name)


@router.post("", status_code=201, response_model=Shown[OrphanLook], responses=refusals(404, 409, 413))
async def look_for_orphans(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.LOOK_FOR_ORPHANS)],
    body: Reason = NO_REASON,
) -> Response:
    """Ask for a look: a server lists the store and reads the references. Nothing is changed by it.

    One at a time for a pipeline, and one at a time on all servers together.
    """

    async def act() -> OrphanLook:
        return await orphans.ask_look(uow, pipeline=name, by=by, why=body.why, now=wiring.clock.now())

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.post("/collect", status_code=201, response_model=Shown[OrphanLook], responses=refusals(404, 409, 413))
async def collect_orphans(
    name: NameInPath,
    body: CollectGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.COLLECT_ORPHANS)],
) -> Response:
    """Have the orphans deleted that a look found, and its open uploads aborted.

    A server looks anew first. What is no orphan any more is kept, and so is what was too young for the look that is
    named.
    """

    async def act() -> OrphanLook:
        return await orphans.ask_collection(
            uow, pipeline=name, look_id=body.look, by=by, why=body.why, now=wiring.clock.now()
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer
