"""The record of pipelines of kind `dataframe` (app/core/product.py)."""

from __future__ import annotations

from app.products.dataframes import schemas  # first: it declares what the routes show

# isort: split
from app.core.asked_batches import AskedBatches
from app.core.late_rows import LateRows
from app.core.product import PipelineLink, Product, Routes, Tag
from app.products.dataframes import api, pages, tones, wire, workers_api
from app.products.dataframes.metrics import query_metrics
from app.products.dataframes.service import showing
from app.products.dataframes.service.late_rows import RecordedLateRows
from app.products.dataframes.service.on_behalf import RecordedBatches
from app.products.dataframes.store import QueryStore

__all__ = ["DATAFRAMES", "schemas"]

DATAFRAMES = Product(
    name="dataframes",
    api=(Routes(after="pipelines", routers=(api.router,)),),
    tags=(
        Tag(
            after="pipelines",
            name="dataframes",
            text="Queries of pipelines of kind `dataframe`: state, batches with durations and rows, new checkpoints.",
        ),
    ),
    pages=(Routes(after="pipelines", routers=(pages.router,)),),
    pipeline_links=(
        PipelineLink(
            path="batches", title="Batches", order=5, is_shown=lambda definition: definition.dataframe is not None
        ),
        PipelineLink(
            path="checkpoint",
            title="New checkpoint…",
            order=42,
            within="offsets",
            is_shown=lambda definition: definition.dataframe is not None,
        ),
    ),
    tones=tones.TONES,
    sentences={"checkpoint-left": "The pipeline has a new checkpoint. Start it: it begins as the plan showed."},
    worker_routes={wire.BATCHES_PATH: workers_api.query_report},
    panel=showing.panel_of,
    metrics=query_metrics,
    row_parts={AskedBatches: RecordedBatches(), LateRows: RecordedLateRows()},
    expire=lambda uow, now: uow.of(QueryStore).expire(now=now),
)
