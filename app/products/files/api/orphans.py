"""REST: scan for files that no committed reference names nor ever will, and delete them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.runs.api.run_schemas import Reason
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow
from app.products.files.api.orphan_schemas import CollectGiven
from app.products.files.orphan_look import OrphanLook
from app.products.files.service import orphans
from app.products.files.service.orphans import Orphans

router = APIRouter(prefix="/pipelines/{name}/files/orphans", tags=["files"])
NO_REASON = Reason()


@router.get("", responses=refusals(404))
async def get_orphans(name: NameInPath, uow: Uow, _: Viewer) -> Shown[Orphans]:
    """Return the findings of the newest orphan scan, the current scan or collection, and the last collection.

    The newest five of each kind and end are kept.
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
    """Start an orphan scan: a server lists the store and reads the references. It changes nothing.

    One runs at a time for a pipeline, and on all servers together.
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
    """Delete the orphans that a scan found, and abort its open uploads.

    A server scans again first. Files that are no orphans any more are kept, and so are those that were too young for
    the named scan.
    """

    async def act() -> OrphanLook:
        return await orphans.ask_collection(
            uow, pipeline=name, look_id=body.look, by=by, why=body.why, now=wiring.clock.now()
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer
