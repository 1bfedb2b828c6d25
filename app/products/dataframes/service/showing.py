"""Read queries and their batches for pages, REST and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.core.overview.product_views import Panel
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.store.runs import RunStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.page import Page
from app.products.dataframes.batch import QueryBatch
from app.products.dataframes.store import QueryStore
from app.products.dataframes.summary import SUMMED, QuerySummary, summary_of


class BatchesPage(NamedTuple):
    """The page of a pipeline's batches. newest: for its charts, newest first. batches: the page of its table."""

    pipeline: Pipeline
    summary: QuerySummary
    newest: Sequence[QueryBatch]
    batches: Page[QueryBatch]


async def query_of(uow: UnitOfWork, name: str, *, now: datetime) -> QuerySummary:
    """Raises NotFoundError when there is no such pipeline."""
    pipeline = await uow.of(PipelineStore).get(name)
    return await _summary(uow, pipeline, await uow.of(QueryStore).newest(name, limit=SUMMED), now=now)


async def panel_of(uow: UnitOfWork, pipeline: Pipeline, now: datetime) -> Panel | None:
    """Return the section of the pipeline's page; None unless it is of kind `dataframe`."""
    if pipeline.definition.dataframe is None:
        return None
    newest = await uow.of(QueryStore).newest(pipeline.name, limit=SUMMED)
    summary = await _summary(uow, pipeline, newest, now=now)
    return Panel(template="components/dataframes_panel.html", content=summary)


async def list_batches(uow: UnitOfWork, name: str, *, after: str | None, limit: int) -> Page[QueryBatch]:
    """Return batches, newest first. Raises NotFoundError when there is no such pipeline."""
    await uow.of(PipelineStore).get(name)
    return await uow.of(QueryStore).list(name, after=after, limit=limit)


async def batches_page(uow: UnitOfWork, name: str, *, after: str | None, limit: int, now: datetime) -> BatchesPage:
    """Raises NotFoundError when there is no such pipeline."""
    pipeline = await uow.of(PipelineStore).get(name)
    newest = await uow.of(QueryStore).newest(name, limit=SUMMED)
    return BatchesPage(
        pipeline=pipeline,
        summary=await _summary(uow, pipeline, newest, now=now),
        newest=newest,
        batches=await uow.of(QueryStore).list(name, after=after, limit=limit),
    )


async def _summary(uow: UnitOfWork, pipeline: Pipeline, newest: Sequence[QueryBatch], *, now: datetime) -> QuerySummary:
    run = await uow.of(RunStore).find_live(pipeline.name)
    status = await uow.of(QueryStore).find_status(pipeline.name)
    return summary_of(pipeline.name, pipeline.definition, run, status, newest, now=now)
