"""The states of an audit, which starts as a Spark application once the pipeline has passed its window.

PENDING ─▶ SUBMITTING ─▶ RUNNING ─▶ DONE
 │  │ ▲        │  │        │  │
 │  │ └────────┘  │        │  ▼
 │  │             │        │ STOPPING ─▶ STOPPED
 │  ▼             ▼        ▼  │
 │ SKIPPED      FAILED ◀──────┘
 ▼
STOPPED

DONE: the job has read and compared; the verdict is its result. SKIPPED: it was never started. SUBMITTING returns to
PENDING if the server died before the start. STOPPING may end as DONE if the job ended first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from app.kit.errors import IllegalTransitionError
from app.kit.storable import moment_of_ms
from app.products.audits.comparison import Comparison
from app.products.audits.result import AuditResult, AuditVerdict, verdict
from app.products.audits.specification import IdPlace, TimeWindow, Window

KEPT_FOR = timedelta(days=90)
"""Retention of an audit after its end."""


MARKED_FOR = timedelta(days=7)
"""Time for which a pipeline is marked after its newest broken audit."""


class AuditState(StrEnum):
    PENDING = "pending"
    SUBMITTING = "submitting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    SKIPPED = "skipped"


_S = AuditState
TRANSITIONS: dict[AuditState, frozenset[AuditState]] = {
    _S.PENDING: frozenset({_S.SUBMITTING, _S.STOPPED, _S.SKIPPED, _S.FAILED}),
    _S.SUBMITTING: frozenset({_S.PENDING, _S.RUNNING, _S.STOPPING, _S.DONE, _S.FAILED}),
    _S.RUNNING: frozenset({_S.STOPPING, _S.DONE, _S.FAILED}),
    _S.STOPPING: frozenset({_S.STOPPED, _S.DONE, _S.FAILED}),
    _S.DONE: frozenset(),
    _S.FAILED: frozenset(),
    _S.STOPPED: frozenset(),
    _S.SKIPPED: frozenset(),
}
ENDED = frozenset({_S.DONE, _S.FAILED, _S.STOPPED, _S.SKIPPED})


class AuditProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The newest progress report of the job. offsets: number of offsets to read in total, 0 until it is known."""

    stage: str
    tasks_done: int = 0
    tasks: int = 0
    offsets: int = 0
    heard_at: datetime


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One audit of one pipeline.

    revision: the revision whose transform determines the expected outputs.
    is_scheduled: requested by the pipeline's plan, not by a user.
    wait_until: it is skipped if the pipeline has not passed the window by then.
    reason: the reason why it waits, was skipped, has failed or was stopped.
    id_place, source_id_place: place of the id in outputs, and in inputs or in the baseline if that differs.
    comparison: what a comparison compares with; None: an audit, which compares with the pipeline's input.
    host, jvm_pid, python_pid, process_started_at, log_path, application_id: of its driver, once started.
    stops_as: the state after STOPPING, STOPPED or FAILED; None without a stop.
    result: only with DONE.
    """

    id: str
    pipeline: str
    cluster: str
    revision: int
    state: AuditState
    since: datetime
    asked_at: datetime
    asked_by: str
    is_scheduled: bool
    window: Window
    id_place: IdPlace
    source_id_place: IdPlace | None
    padding_s: int
    wait_until: datetime
    comparison: Comparison | None = None
    reason: str | None = None
    host: str | None = None
    jvm_pid: int | None = None
    python_pid: int | None = None
    process_started_at: datetime | None = None
    log_path: str | None = None
    application_id: str | None = None
    submitted_at: datetime | None = None
    progress: AuditProgress | None = None
    stops_as: AuditState | None = None
    ended_at: datetime | None = None
    result: AuditResult | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """The window as moments; None unless it is a time window."""
        if not isinstance(self.window, TimeWindow):
            return None
        return moment_of_ms(self.window.start_ms), moment_of_ms(self.window.end_ms)

    @property
    def verdict(self) -> AuditVerdict | None:
        """The verdict; None without a result."""
        return None if self.result is None else verdict(self.result)


def moved(audit: Audit, to: AuditState, *, now: datetime, reason: str | None = None) -> Audit:
    """Return the audit in state `to`. Raises IllegalTransitionError."""
    if to not in TRANSITIONS[audit.state]:
        raise IllegalTransitionError(f"audit {audit.id} of {audit.pipeline} cannot go from {audit.state} to {to}")
    return msgspec.structs.replace(audit, state=to, since=now, reason=reason, ended_at=now if to in ENDED else None)


_TOLD = ("expected", "lost", "duplicated", "unexpected", "late", "dangling")
COUNTED = (
    *(f"{noun}_{end}" for noun in ("audits", "comparisons") for end in (*AuditVerdict, *sorted(ENDED - {_S.DONE}))),
    *(f"outputs_{finding}" for finding in _TOLD),
    *(f"compared_{finding}" for finding in (*_TOLD, "different")),
)
"""The names of a pipeline's counters: its audits and comparisons by verdict or end, and outputs by finding."""


def counted(audit: Audit) -> dict[str, int]:
    """Return the counts that an ended audit adds to its pipeline's counters: end or verdict, outputs by finding."""
    counts = {f"{counter_of(audit)}_{audit.verdict or audit.state}": 1}
    if audit.result is not None:
        found, noun = audit.result.counts, "outputs" if audit.comparison is None else "compared"
        counts |= {
            f"{noun}_expected": found.expected,
            f"{noun}_lost": found.lost.records,
            f"{noun}_duplicated": found.duplicated.records,
            f"{noun}_unexpected": found.unexpected.records,
            f"{noun}_late": found.late.records,
            f"{noun}_dangling": found.dangling.records,
        }
        if audit.comparison is not None:
            counts["compared_different"] = found.different.records
    return counts


def counter_of(audit: Audit) -> str:
    """Return the counter of its ends."""
    return "audits" if audit.comparison is None else "comparisons"
