"""The record of drills (app/core/product.py)."""

from __future__ import annotations

from app.products.drills import schemas  # first: it declares what the routes show

# isort: split
from app.core.product import PipelineLink, Product, Routes, ServerParts, Tag
from app.core.wire.drill import DRILL_PATH
from app.kit.loops.supervisor import Loop
from app.kit.web.pages.navigation import Door, Place
from app.products.drills import api, pages, tones, workers_api
from app.products.drills.loop import DrillWatch
from app.products.drills.ordering import order_of
from app.products.drills.service.drills import why_disturbed
from app.products.drills.store import DrillStore

__all__ = ["DRILLS", "schemas"]


def _loops(server: ServerParts) -> tuple[Loop, ...]:
    watch = DrillWatch(
        unit_of_work=server.unit_of_work,
        observations=server.observations,
        freeze_self=server.freeze_self,
        clock=server.clock,
        host=server.host,
    )
    return (watch,)


DRILLS = Product(
    name="drills",
    api=(Routes(after="runs", routers=(api.router,)),),
    tags=(
        Tag(
            after="runs",
            name="drills",
            text="Deliberate failures of pipelines that allow them: expectations, events and the verdict.",
        ),
    ),
    pages=(Routes(after="runs", routers=(pages.router,)),),
    navigation=(Place(door=Door.PIPELINES, path="/drills", title=None),),
    pipeline_links=(
        PipelineLink(
            path="drills",
            title="Drills",
            order=93,
            within="more",
            about="Deliberate failures of an instance or the server, with expectations and a verdict.",
            is_shown=lambda definition: definition.allows_drills,
        ),
    ),
    tones=tones.TONES,
    sentences={
        "drill-ordered": "Requested. It begins within a second or two; its events appear below.",
        "drill-stopped": "Stopping: no further step begins, and frozen processes are thawed.",
    },
    worker_routes={DRILL_PATH: workers_api.drill},
    loops=_loops,
    loops_after="reconciler",
    expire=lambda uow, now: uow.of(DrillStore).expire(now=now),
    disturbed=why_disturbed,
    order_of=order_of,
)
