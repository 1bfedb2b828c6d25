"""The colours of states: audits and their findings."""

from __future__ import annotations

from app.products.audits.audit import AuditState
from app.products.audits.result import AuditVerdict, IdFinding

TONES: tuple[tuple[str, str], ...] = (
    (AuditState.PENDING, "busy"),
    (AuditState.SUBMITTING, "busy"),
    (AuditState.RUNNING, "busy"),
    (AuditState.STOPPING, "busy"),
    (AuditState.DONE, "idle"),
    (AuditState.FAILED, "bad"),
    (AuditState.STOPPED, "idle"),
    (AuditState.SKIPPED, "warn"),
    (AuditVerdict.CLEAN, "good"),
    (AuditVerdict.BROKEN, "bad"),
    (AuditVerdict.NOT_SHOWN, "warn"),
    (AuditVerdict.EMPTY, "idle"),
    (IdFinding.LOST, "bad"),
    (IdFinding.DUPLICATED, "bad"),
    (IdFinding.UNEXPECTED, "bad"),
    (IdFinding.LATE, "warn"),
    (IdFinding.MISSING, "warn"),
    (IdFinding.UNEXPLAINED, "warn"),
    (IdFinding.UNREADABLE_INPUT, "warn"),
    (IdFinding.UNREADABLE_OUTPUT, "warn"),
    (IdFinding.DANGLING, "bad"),
    (IdFinding.DIFFERENT, "bad"),
    (IdFinding.DUPLICATED_IN_BASELINE, "warn"),
)
