"""REST: the query of a pipeline of kind `dataframe`, its batches, and its new checkpoint."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow
from app.products.dataframes.batch import QueryBatch
from app.products.dataframes.new_checkpoint import Begin, NewCheckpointPlan
from app.products.dataframes.schemas import Location, NewCheckpointGiven
from app.products.dataframes.service import checkpoints, showing
from app.products.dataframes.service.checkpoints import CheckpointAsked
from app.products.dataframes.summary import QuerySummary

router = APIRouter(prefix="/pipelines/{name}", tags=["dataframes"])


@router.get("/batches", responses=refusals(404))
async def list_batches(
    name: NameInPath, uow: Uow, _: Viewer, after: After = None, limit: Limit = 50
) -> Shown[Page[QueryBatch]]:
    """List finished batches, newest first. Kept for 7 days, and at most the newest 10,000 of a pipeline."""
    return await showing.list_batches(uow, name, after=after, limit=limit)


@router.get("/query", responses=refusals(404))
async def get_query(name: NameInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> Shown[QuerySummary]:
    """Return the state of the query, with rates, watermark and state size."""
    return await showing.query_of(uow, name, now=wiring.clock.now())


@router.get("/checkpoint/plan", responses=refusals(404, 409, 422))
async def plan_new_checkpoint(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    begin: Annotated[Begin | None, Query()] = None,
    checkpoint: Annotated[Location | None, Query()] = None,
) -> Shown[NewCheckpointPlan]:
    """Show the effect of a new checkpoint as of now: records read again, lost state, rows written twice.

    Nothing is changed. Without `begin`, a query without state begins at its committed offsets, any other at its start
    position. Without `checkpoint`, a location is suggested.
    """
    asked = CheckpointAsked(begin, checkpoint)
    return await checkpoints.plan_new_checkpoint(uow, wiring.brokers, wiring.transactions, pipeline=name, asked=asked)


@router.post("/checkpoint", response_model=Shown[NewCheckpointPlan], responses=refusals(404, 409, 412, 413))
async def set_new_checkpoint(
    name: NameInPath,
    body: NewCheckpointGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.NEW_CHECKPOINT)],
) -> Response:
    """Leave the checkpoint of a stopped query. The next start begins with the new one, as the plan shows.

    The location becomes a new revision. `why` is required.
    """

    async def act() -> NewCheckpointPlan:
        return await checkpoints.set_new_checkpoint(
            uow,
            wiring.brokers,
            wiring.transactions,
            pipeline=name,
            asked=CheckpointAsked(body.begin, body.checkpoint),
            expected_batch=body.expected_batch,
            allowed=wiring.allowed_options,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
        )

    answer = await once.do(act)
    await uow.commit()
    return answer
