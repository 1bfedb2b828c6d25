"""The life of an audit: asked for, started as a Spark application once the pipeline has passed its window, ended.

PENDING ─▶ SUBMITTING ─▶ RUNNING ─▶ DONE
 │  │ ▲        │  │        │  │
 │  │ └────────┘  │        │  ▼
 │  │             │        │ STOPPING ─▶ STOPPED
 │  ▼             ▼        ▼  │
 │ SKIPPED      FAILED ◀──────┘
 ▼
STOPPED

DONE says that the job has read and compared, not what came of it: that is the verdict. SKIPPED was never started. From
SUBMITTING back to PENDING: the server died before it had started anything. STOPPING may end as DONE: the job was first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from app.kit.errors import IllegalTransitionError
from app.kit.storable import moment_of_ms
from app.products.audits.result import AuditResult, Verdict, verdict
from app.products.audits.specification import IdPlace, TimeWindow, Window

KEPT_FOR = timedelta(days=90)
"""So long after its end."""


MARKED_FOR = timedelta(days=7)
"""So long a pipeline is marked after the newest audit that has proven something wrong."""


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
    """What the job said last of itself. offsets: how many there are to read in all, 0 until it is known."""

    stage: str
    tasks_done: int = 0
    tasks: int = 0
    offsets: int = 0
    heard_at: datetime


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One audit of one pipeline.

    revision: whose transform says what was dropped on purpose.
    is_scheduled: asked for by the pipeline's plan, not by a person.
    wait_until: it is skipped when the pipeline has not passed the window by then.
    reason: why it waits, was skipped or failed, or who stopped it.
    id_place, source_id_place: where an output has its id, and an input, where that is another place.
    host, jvm_pid, python_pid, process_started_at, log_path, application_id: of its driver, where one was started.
    stops_as: the end that a stop leads to, STOPPED or FAILED; None: nobody stops it.
    result: only of DONE.
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
        """The window as moments; None: it is none of time."""
        if not isinstance(self.window, TimeWindow):
            return None
        return moment_of_ms(self.window.start_ms), moment_of_ms(self.window.end_ms)

    @property
    def verdict(self) -> Verdict | None:
        """None: it has no result."""
        return None if self.result is None else verdict(self.result)


def moved(audit: Audit, to: AuditState, *, now: datetime, reason: str | None = None) -> Audit:
    """The audit in state `to`. Raises IllegalTransitionError."""
    if to not in TRANSITIONS[audit.state]:
        raise IllegalTransitionError(f"audit {audit.id} of {audit.pipeline} cannot go from {audit.state} to {to}")
    return msgspec.structs.replace(audit, state=to, since=now, reason=reason, ended_at=now if to in ENDED else None)


COUNTED = (
    *(f"audits_{end}" for end in (*Verdict, *sorted(ENDED - {_S.DONE}))),
    *(f"outputs_{finding}" for finding in ("expected", "lost", "duplicated", "unexpected", "late", "dangling")),
)
"""The names of a pipeline's counters: its audits by verdict or end, and outputs by finding."""


def counted(audit: Audit) -> dict[str, int]:
    """What an audit that has ended adds to its pipeline's counters: its end or verdict, and outputs by finding."""
    counts = {f"audits_{audit.verdict or audit.state}": 1}
    if audit.result is not None:
        found = audit.result.counts
        counts |= {
            "outputs_expected": found.expected,
            "outputs_lost": found.lost.records,
            "outputs_duplicated": found.duplicated.records,
            "outputs_unexpected": found.unexpected.records,
            "outputs_late": found.late.records,
            "outputs_dangling": found.dangling.records,
        }
    return counts
