"""The record of the offset log (app/core/product.py)."""

from __future__ import annotations

from app.products.offset_log import schemas  # first: it declares what the routes show

# isort: split
from app.core.product import PipelineLink, Product, Routes, ServerParts
from app.kit.loops.supervisor import Loop
from app.products.offset_log import api, pages, service
from app.products.offset_log.loop import OffsetWatch
from app.products.offset_log.metrics import offset_log_metrics
from app.products.offset_log.retention_store import OffsetLogRetentionStore

__all__ = ["OFFSET_LOG", "schemas"]


def _loops(server: ServerParts) -> tuple[Loop, ...]:
    return (OffsetWatch(unit_of_work=server.unit_of_work, observations=server.observations, clock=server.clock),)


OFFSET_LOG = Product(
    name="offset_log",
    api=(Routes(after="ids", routers=(api.router,)),),
    pages=(Routes(after="pipelines", routers=(pages.router,)),),
    pipeline_links=(PipelineLink(path="offsets", title="Offsets", order=40),),
    loops=_loops,
    needs=service.contradiction_needs,
    panel=service.panel_of,
    metrics=offset_log_metrics,
    expire=lambda uow, now: uow.of(OffsetLogRetentionStore).expire(now=now),
    keep_offsets=lambda uow, heartbeat, epoch, now: service.keep(uow, heartbeat, database_epoch=epoch, now=now),
)
