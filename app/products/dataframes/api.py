"""REST: the query of a pipeline of kind `dataframe`, and its batches."""

from __future__ import annotations

from fastapi import APIRouter

from app.core.access.signed_in import Viewer
from app.core.wiring import WiringDep
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow
from app.products.dataframes.batch import QueryBatch
from app.products.dataframes.service import showing
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
