"""The gaps of an audit that the revisions in force cause, as known from leases."""

from __future__ import annotations

from datetime import datetime

from app.core.pipelines.store import PipelineStore
from app.kit.db.unit_of_work import UnitOfWork
from app.products.audits.audit import Audit
from app.products.audits.doubts import doubts_of, span_in_force
from app.products.audits.result import Gap
from app.products.audits.store import AuditStore


async def doubts_about(uow: UnitOfWork, audit: Audit, *, now: datetime) -> tuple[Gap, ...]:
    """Return the gaps of an audit that begins now. If it waited, its window was processed after the padding."""
    begin, until = span_in_force(audit.window, padding_s=audit.padding_s)
    if until is not None and audit.is_scheduled:
        until = max(until, now)
    in_force = await uow.of(AuditStore).in_force(audit.pipeline, begin, until)
    judged_by = await uow.of(PipelineStore).get_revision(audit.pipeline, audit.revision)
    others = [
        await uow.of(PipelineStore).get_revision(audit.pipeline, number)
        for number in in_force.revisions
        if number != audit.revision
    ]
    is_comparison = audit.comparison is not None and not audit.comparison.is_recomputation
    return doubts_of(audit.window, in_force, judged_by=judged_by, others=others, is_comparison=is_comparison)
