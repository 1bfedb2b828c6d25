"""Prometheus metrics of audits and of their plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from app.core.pipelines.pipeline_record import Pipeline
from app.kit.db.unit_of_work import UnitOfWork
from app.products.audits.audit import COUNTED
from app.products.audits.plan import AuditPlan
from app.products.audits.store import AuditPlanStore, AuditStore


async def audit_metrics(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Callable[[CollectorRegistry], None]:
    """Return the metrics of these pipelines and of every plan."""
    del now
    counts = await uow.of(AuditStore).counts()
    plans = await uow.of(AuditPlanStore).scheduled()
    return lambda registry: _write(registry, {one.name: counts.get(one.name, {}) for one in pipelines}, plans)


def _write(registry: CollectorRegistry, counts: Mapping[str, Mapping[str, int]], plans: Sequence[AuditPlan]) -> None:
    """Add counts from Postgres, so that all servers have the same values."""
    counters = {
        "audits": Counter(
            "fenceline_audits", "Audits that have ended, by verdict or end", ["pipeline", "end"], registry=registry
        ),
        "comparisons": Counter(
            "fenceline_comparisons",
            "Comparisons with another system that have ended, by verdict or end",
            ["pipeline", "end"],
            registry=registry,
        ),
        "compared": Counter(
            "fenceline_compared_outputs",
            "Records of the other system's output, and outputs that comparisons found to be wrong",
            ["pipeline", "finding"],
            registry=registry,
        ),
        "outputs": Counter(
            "fenceline_audited_outputs",
            "Outputs that audits found, or missed",
            ["pipeline", "finding"],
            registry=registry,
        ),
    }
    for pipeline, of_pipeline in counts.items():
        # From zero on: Prometheus sees no increase in a counter that begins with its first event.
        for what in COUNTED:
            kind, _, word = what.partition("_")
            counters[kind].labels(pipeline, word).inc(max(0, of_pipeline.get(what, 0)))
    of_audits = Gauge(
        "fenceline_audit_shown_until_timestamp_seconds",
        "The end of the newest window of which an audit by plan has shown that every output is there, once",
        ["pipeline"],
        registry=registry,
    )
    of_comparisons = Gauge(
        "fenceline_comparison_shown_until_timestamp_seconds",
        "The end of the newest window of which a comparison by plan has shown that both systems wrote the same",
        ["pipeline"],
        registry=registry,
    )
    for plan in plans:
        shown = of_audits if plan.comparison is None else of_comparisons
        # Without a number for "nothing yet" an alert would not see it.
        shown.labels(plan.pipeline).set((plan.shown_until or plan.changed_at).timestamp())
