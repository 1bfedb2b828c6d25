"""Prometheus metrics of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Gauge

from app.core.pipelines.pipeline_record import Pipeline
from app.kit.db.unit_of_work import UnitOfWork
from app.products.dataframes.batch import BatchPart, QueryBatch
from app.products.dataframes.store import LiveQuery, QueryStore
from app.products.dataframes.wire import QueryState

_SECOND = timedelta(seconds=1)
_FIGURES: dict[str, tuple[str, Callable[[QueryBatch], int | None]]] = {
    "input_rows": ("Input rows of the newest batch", lambda one: one.input_rows),
    "output_rows": ("Rows that the newest batch committed", lambda one: one.output_rows),
    "state_rows": ("Rows of the state", lambda one: one.state_rows),
    "state_bytes": ("Memory of the state", lambda one: one.state_bytes),
    "late_rows": ("Rows of the newest batch that were behind the watermark", lambda one: one.late_rows),
}


async def query_metrics(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Callable[[CollectorRegistry], None]:
    """Return the metrics of queries with a live run."""
    del pipelines
    found = await uow.of(QueryStore).live()
    return lambda registry: _write(registry, found, now)


def _write(registry: CollectorRegistry, found: Sequence[LiveQuery], now: datetime) -> None:
    def gauge(name: str, words: str, *labels: str) -> Gauge:
        return Gauge(f"fenceline_query_{name}", words, ["pipeline", *labels], registry=registry)

    state = gauge("state", "1 for the state of its newest report", "state")
    report_age = gauge("report_age_seconds", "Age of the newest report of the driver")
    number = gauge("batch", "Number of the newest batch")
    length = gauge("batch_duration_seconds", "Duration of the newest batch by part", "part")
    age = gauge("watermark_age_seconds", "Now minus the watermark of the newest batch")
    figures = {name: gauge(name, words) for name, (words, _) in _FIGURES.items()}
    for query in found:
        for one in QueryState:
            state.labels(query.pipeline, one).set(one is query.status.state)
        report_age.labels(query.pipeline).set((now - query.status.received_at) / _SECOND)
        newest = query.newest
        if newest is None:
            continue
        number.labels(query.pipeline).set(newest.batch)
        lengths = newest.lengths_ms()
        for part in BatchPart:
            length.labels(query.pipeline, part).set(lengths[part] / 1000)
        if newest.watermark is not None:
            age.labels(query.pipeline).set((now - newest.watermark) / _SECOND)
        for name, (_, value) in _FIGURES.items():
            if (figure := value(newest)) is not None:
                figures[name].labels(query.pipeline).set(figure)
