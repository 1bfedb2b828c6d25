"""The page of a query's batches: its state, charts of the newest batches, and a table of all kept ones."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from fastapi import APIRouter, Request, Response

from app.core.access.signed_in import Viewer
from app.core.wiring import WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.dataframes.batch import SPARK_PARTS, BatchPart
from app.products.dataframes.chart import HEIGHT, duration_chart_of, state_chart_of, watermark_chart_of
from app.products.dataframes.service import showing

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_BATCHES_SHOWN = 25
_BARS = 60

_PARTS: dict[BatchPart, str] = {
    BatchPart.OFFSETS: "Finding the newest offsets of the sources, and writing those of the batch to the checkpoint",
    BatchPart.PLANNING: "Planning the batch",
    BatchPart.ADDING: "Reading, transforming and writing the rows, and committing the transaction",
    BatchPart.COMMITTING: "Recording in the checkpoint that the batch is committed",
    BatchPart.OTHER: "The rest of the trigger, which Spark does not measure",
}


def looking_at(name: str, after: str | None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        found = await showing.batches_page(uow, name, after=after, limit=_BATCHES_SHOWN, now=now)
        summary = found.summary
        charted = [one for one in found.newest if summary.newest and one.query_id == summary.newest.query_id]
        context = {
            "name": name,
            "summary": summary,
            "has_query": found.pipeline.definition.dataframe is not None,
            "bars": _BARS,
            "durations": duration_chart_of(charted[:_BARS], interval_ms=summary.trigger_interval_ms),
            "height": HEIGHT,
            "state_chart": state_chart_of(charted),
            "watermark_chart": watermark_chart_of(charted),
            "batches": found.batches.items,
            "pages": links_of(found.batches.next_cursor, partial(screen.url_of, "pipelines", name, "batches")),
            "is_first": after is None,
            "parts_words": _PARTS,
            "spark_parts": SPARK_PARTS,
        }
        concerns = frozenset({f"pipeline:{name}"})
        return Screen(template="dataframes/list", title=f"Batches of {name}", context=context, concerns=concerns)

    return look


@router.get("/pipelines/{name}/batches")
@router.get("/pipelines/{name}/batches/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    # Only the first page of the list has live updates.
    return await screen.live(request, wiring, by, looking_at(name, after), is_live=after is None)
