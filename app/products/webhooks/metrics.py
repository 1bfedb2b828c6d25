"""Prometheus metrics of deliveries to webhooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Gauge

from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import DeliveryState, WebhookCounts
from app.core.pipelines.pipeline_record import Pipeline
from app.kit.db.unit_of_work import UnitOfWork


async def webhook_metrics(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Callable[[CollectorRegistry], None]:
    """Return the metrics of every webhook."""
    del pipelines
    counts = await uow.of(WebhookStore).counts()
    return lambda registry: _write(registry, counts, now=now)


def _write(registry: CollectorRegistry, counts: Mapping[str, WebhookCounts], *, now: datetime) -> None:
    deliveries = Gauge(
        "fenceline_webhook_deliveries", "Deliveries that are kept, by state", ["webhook", "state"], registry=registry
    )
    oldest = Gauge(
        "fenceline_webhook_oldest_pending_seconds",
        "Age of the oldest delivery on its way",
        ["webhook"],
        registry=registry,
    )
    for name, each in counts.items():
        for state in DeliveryState:
            deliveries.labels(name, state.value).set(getattr(each, state.value))
        waiting = now - each.oldest_pending_at if each.oldest_pending_at is not None else timedelta()
        oldest.labels(name).set(max(0.0, waiting.total_seconds()))
