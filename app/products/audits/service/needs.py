"""The issues of pipelines with broken audits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.needs import Need
from app.kit.db.unit_of_work import UnitOfWork
from app.products.audits.audit import MARKED_FOR
from app.products.audits.needs import broken_audit_need
from app.products.audits.store import AuditStore


async def audit_needs(uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime) -> Mapping[str, Sequence[Need]]:
    """Return an issue for each pipeline with a broken audit of the last days."""
    del pipelines  # one statement reads all
    broken = await uow.of(AuditStore).broken(since=now - MARKED_FOR)
    return {name: (broken_audit_need(name, audits),) for name, audits in broken.items() if audits}
