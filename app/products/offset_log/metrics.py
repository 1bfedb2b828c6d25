"""Prometheus metrics of offset logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.pipelines.pipeline_record import Pipeline
from app.kit.db.unit_of_work import UnitOfWork
from app.products.offset_log.record import MARKED_FOR
from app.products.offset_log.store import OffsetLogStore


async def offset_log_metrics(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Callable[[CollectorRegistry], None]:
    """Return the metrics of pipelines that record their offsets; others have none."""
    found = await uow.of(OffsetLogStore).contradicted(since=now - MARKED_FOR)

    def write(registry: CollectorRegistry) -> None:
        gauge = Gauge(
            "fenceline_offset_contradictions",
            "Contradictions in what a pipeline's tasks recorded of their offsets, of the last seven days",
            ["pipeline"],
            registry=registry,
        )
        for pipeline in pipelines:
            if pipeline.definition.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
                gauge.labels(pipeline.name).set(found.get(pipeline.name, 0))

    return write
