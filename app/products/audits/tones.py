"""The colours of states: audits and their findings."""

from __future__ import annotations

from app.products.audits.audit import AuditState
from app.products.audits.result import Finding, Verdict

TONES: tuple[tuple[str, str], ...] = (
    (AuditState.PENDING, "busy"),
    (AuditState.SUBMITTING, "busy"),
    (AuditState.RUNNING, "busy"),
    (AuditState.STOPPING, "busy"),
    (AuditState.DONE, "idle"),
    (AuditState.FAILED, "bad"),
    (AuditState.STOPPED, "idle"),
    (AuditState.SKIPPED, "warn"),
    (Verdict.CLEAN, "good"),
    (Verdict.BROKEN, "bad"),
    (Verdict.NOT_SHOWN, "warn"),
    (Verdict.EMPTY, "idle"),
    (Finding.LOST, "bad"),
    (Finding.DUPLICATED, "bad"),
    (Finding.UNEXPECTED, "bad"),
    (Finding.LATE, "warn"),
    (Finding.MISSING, "warn"),
    (Finding.UNEXPLAINED, "warn"),
    (Finding.UNREADABLE_INPUT, "warn"),
    (Finding.UNREADABLE_OUTPUT, "warn"),
    (Finding.DANGLING, "bad"),
)
