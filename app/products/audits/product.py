"""The record of audits (app/core/product.py)."""

from __future__ import annotations

from datetime import timedelta

from app.products.audits import schemas  # first: it declares what the routes show

# isort: split
from app.core.allow_lists.options import AllowedOptions
from app.core.asked_audits import AskedAudits
from app.core.product import PipelineLink, Product, Routes, ServerParts, Tag
from app.edges.spark.spark_submit import SparkSubmit
from app.kit.loops.supervisor import Loop
from app.kit.web.pages.navigation import Door, Place
from app.products.audits import api, pages, tones, wire, workers_api
from app.products.audits.decision import AuditTiming
from app.products.audits.launcher import SubmitAuditLauncher
from app.products.audits.loop import Auditor
from app.products.audits.metrics import audit_metrics
from app.products.audits.service.needs import audit_needs
from app.products.audits.service.on_behalf import PlannedAudits
from app.products.audits.store import AuditStore

__all__ = ["AUDITS", "schemas"]


def _launcher(server: ServerParts) -> SubmitAuditLauncher:
    settings = server.settings
    return SubmitAuditLauncher(
        server.part(SparkSubmit), state_dir=settings.state_dir, jdbc_driver_jars=settings.jdbc_driver_jars
    )


def _loops(server: ServerParts) -> tuple[Loop, ...]:
    settings = server.settings
    auditor = Auditor(
        unit_of_work=server.unit_of_work,
        brokers=server.brokers,
        launcher=_launcher(server),
        clock=server.clock,
        host=server.host,
        cores=settings.audit_cores,
        version=server.version,
        server_urls=lambda: server.workers_urls,
        allowed=AllowedOptions(
            baseline_roots=frozenset(settings.allowed_baseline_roots),
            jdbc_urls=frozenset(settings.allowed_jdbc_urls),
            jdbc_drivers=frozenset(settings.allowed_jdbc_drivers),
        ),
        timing=AuditTiming(longest=timedelta(minutes=settings.audit_longest_minutes)),
    )
    return (auditor,)


AUDITS = Product(
    name="audits",
    api=(Routes(after="runs", routers=(api.router,)),),
    tags=(
        Tag(
            after="runs",
            name="audits",
            text="Audits: the outputs of a pipeline, compared with the outputs that its input requires, id by id.",
        ),
    ),
    pages=(Routes(after="runs", routers=(pages.router,)),),
    navigation=(Place(door=Door.PIPELINES, path="/audits", title=None),),
    pipeline_links=(PipelineLink(path="audits", title="Audits", order=50),),
    tones=tones.TONES,
    sentences={
        "audit-asked": "Requested. It begins as soon as the pipeline has passed the window.",
        "audit-planned": "Saved. Windows are audited as they end.",
        "comparison-planned": "Saved. Windows are compared as they end.",
        "audit-stopped": "Stopping. The window has no verdict.",
    },
    worker_routes={
        wire.CLAIM_PATH: workers_api.claim_audit,
        wire.PROGRESS_PATH: workers_api.audit_progress,
        wire.OUTCOME_PATH: workers_api.audit_outcome,
    },
    loops=_loops,
    loops_after="reconciler",
    row_parts={AskedAudits: PlannedAudits()},
    driver_folders=_launcher,
    needs=audit_needs,
    metrics=audit_metrics,
    expire=lambda uow, now: uow.of(AuditStore).expire(now=now),
)
