"""The alert of an audit."""

from __future__ import annotations

from datetime import datetime

from app.core.alerts.alert import Alert, AlertKind, AlertState, subject_of
from app.products.audits.audit import Audit
from app.products.audits.result import AuditResult, IdFinding
from app.products.audits.telling import verdict_sentence


def audit_alert(audit: Audit, result: AuditResult, *, kafka_cluster_id: str, now: datetime) -> Alert:
    """Return the alert of a broken audit."""
    proof = (
        IdFinding.LOST,
        IdFinding.DUPLICATED,
        IdFinding.UNEXPECTED,
        IdFinding.DIFFERENT,
        IdFinding.DANGLING,
    )
    places = dict.fromkeys(f"{one.topic}-{one.partition}" for one in result.partitions if one.finding in proof)
    return Alert(
        kind=AlertKind.AUDIT,
        state=AlertState.HAPPENED,
        subject=subject_of("audit", audit.id),
        at=now,
        sentence=f"The {'audit' if result.baseline is None else 'comparison'} of {audit.pipeline}: "
        f"{verdict_sentence(result)}",
        page=f"/audits/{audit.id}",
        cluster=audit.cluster,
        kafka_cluster_id=kafka_cluster_id,
        pipeline=audit.pipeline,
        partitions=tuple(places),
        audit=audit.id,
        lost=result.counts.lost.records,
        duplicated=result.counts.duplicated.records,
        unexpected=result.counts.unexpected.records,
        different=None if audit.comparison is None else result.counts.different.records,
    )
