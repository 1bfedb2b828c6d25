"""The pages of a query: its batches with state and charts, and the plan of a new checkpoint."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.pipelines.pages.tabs import tabs_of
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.dataframes.batch import SPARK_PARTS, BatchPart
from app.products.dataframes.chart import HEIGHT, duration_chart_of, state_chart_of, watermark_chart_of
from app.products.dataframes.new_checkpoint import Begin
from app.products.dataframes.service import checkpoints, showing
from app.products.dataframes.service.checkpoints import CheckpointAsked

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Text = Annotated[str, Form(max_length=1000)]
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
        tabs = await tabs_of(uow, name, "batches")
        title = f"Batches of {name}"
        return Screen(template="dataframes/list", title=title, context=context, concerns=concerns, tabs=tabs)

    return look


@router.get("/pipelines/{name}/batches")
@router.get("/pipelines/{name}/batches/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    # Only the first page of the list has live updates.
    return await screen.live(request, wiring, by, looking_at(name, after), is_live=after is None)


_BEGINS: dict[Begin, str] = {
    Begin.COMMITTED: "Committed offsets",
    Begin.START_POSITION: "Start position",
}


def looking_at_plan(name: str, asked: CheckpointAsked, wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        plan, refusal = None, None
        try:
            plan = await checkpoints.plan_new_checkpoint(
                uow, wiring.brokers, wiring.transactions, pipeline=name, asked=asked
            )
        except NotFoundError:
            raise
        except FencelineError as error:
            refusal = error.message
        context = {"name": name, "plan": plan, "refusal": refusal, "begins": _BEGINS}
        tabs = await tabs_of(uow, name, "checkpoint")
        title = f"New checkpoint of {name}"
        return Screen(template="dataframes/checkpoint", title=title, context=context, tabs=tabs)

    return look


@router.get("/pipelines/{name}/checkpoint")
async def show_plan(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    name: str,
    begin: Annotated[Begin | None, Query()] = None,
    checkpoint: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    asked = CheckpointAsked(begin, checkpoint or None)
    return await screen.page(request, wiring, by, looking_at_plan(name, asked, wiring), is_live=False)


@router.post("/pipelines/{name}/checkpoint")
async def set_new_checkpoint(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.NEW_CHECKPOINT)],
    name: str,
    begin: Annotated[Begin, Form()],
    checkpoint: Text,
    expected_batch: Annotated[int, Form(ge=-1, lt=2**63)],
    why: Text = "",
) -> Response:
    asked = CheckpointAsked(begin, checkpoint)
    try:
        await checkpoints.set_new_checkpoint(
            uow,
            wiring.brokers,
            wiring.transactions,
            pipeline=name,
            asked=asked,
            expected_batch=expected_batch,
            allowed=wiring.allowed_options,
            by=by,
            why=why,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        look = looking_at_plan(name, asked, wiring)
        return await screen.page(request, wiring, by, look, is_live=False, refused=error)
    return screen.see("pipelines", name, said="checkpoint-left")
