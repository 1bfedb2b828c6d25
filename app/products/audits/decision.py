"""The next step of an audit, decided from its row and the observed state of its driver."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.runs.observation import ProcessWord
from app.products.audits.audit import Audit, AuditState
from app.products.audits.result import AuditResult

_WORDS_OF_A_LOG = 5


class AuditTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The time limits of audits.

    longest: longest duration, after which an audit is stopped. stop: time from SIGTERM to SIGKILL.
    unseen: time without a report after which a driver on another host has failed, while a server was listening.
    """

    longest: timedelta = timedelta(hours=2)
    stop: timedelta = timedelta(seconds=30)
    unseen: timedelta = timedelta(minutes=5)


class DriverWord(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome that an audit's driver wrote to its file."""

    kind: str
    message: str
    result: AuditResult | None = None


class SeenDriver(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the driver as observed on this host. jvm_pid, started_at: of the found process."""

    process: ProcessWord
    jvm_pid: int | None = None
    started_at: datetime | None = None
    left: DriverWord | None = None
    log_tail: str = ""


class Adopt(msgspec.Struct, frozen=True, kw_only=True):
    """Record the driver that another server started and did not record."""

    jvm_pid: int
    started_at: datetime


class SubmitAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Submit again: the server that was about to start the driver has ended before."""


class TakeWord(msgspec.Struct, frozen=True, kw_only=True):
    """Take the outcome from its file, since no server received it."""

    word: DriverWord


class End(msgspec.Struct, frozen=True, kw_only=True):
    to: AuditState
    reason: str


class AskToStop(msgspec.Struct, frozen=True, kw_only=True):
    """Stop an audit that exceeds the longest duration: STOPPING, then FAILED with the reason."""

    reason: str


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Send SIGTERM, or SIGKILL after the time limit."""

    is_kill: bool


Action = Adopt | SubmitAgain | TakeWord | End | AskToStop | Signal


def decide(
    audit: Audit, seen: SeenDriver, *, timing: AuditTiming, listening_since: datetime, now: datetime
) -> Action | None:
    """Return the next step of a submitted audit; None: wait.

    The outcome file has precedence, as the driver writes it last. listening_since: no server received reports before,
    so a driver without reports until then proves nothing.
    """
    if seen.left is not None:
        return TakeWord(word=seen.left)
    match seen.process:
        case ProcessWord.GONE:
            return _gone(audit, seen)
        case ProcessWord.ALIVE:
            return _alive(audit, seen, timing, now)
        case ProcessWord.UNKNOWN:
            return _unseen(audit, timing, listening_since, now)


def _gone(audit: Audit, seen: SeenDriver) -> Action:
    if audit.state is AuditState.STOPPING:
        return End(to=audit.stops_as or AuditState.STOPPED, reason=audit.reason or "it was stopped")
    if audit.state is AuditState.SUBMITTING and audit.jvm_pid is None:
        return SubmitAgain()
    return End(to=AuditState.FAILED, reason=f"its process has ended without an outcome{_last_words(seen.log_tail)}")


def _alive(audit: Audit, seen: SeenDriver, timing: AuditTiming, now: datetime) -> Action | None:
    if audit.state is AuditState.STOPPING:
        return Signal(is_kill=now - audit.since > timing.stop)
    if audit.jvm_pid is None and seen.jvm_pid is not None and seen.started_at is not None:
        return Adopt(jvm_pid=seen.jvm_pid, started_at=seen.started_at)
    return _too_long(audit, timing, now)


def _too_long(audit: Audit, timing: AuditTiming, now: datetime) -> Action | None:
    worked = now - (audit.submitted_at or audit.since)
    if worked <= timing.longest:
        return None
    return AskToStop(reason=f"it was stopped after {_minutes(worked)}: the limit is {_minutes(timing.longest)}")


def _unseen(audit: Audit, timing: AuditTiming, listening_since: datetime, now: datetime) -> Action | None:
    """Decide about a driver on another host, which learns of a stop from the answer to its next progress report."""
    told_at = audit.since if audit.progress is None else max(audit.since, audit.progress.heard_at)
    heard_at = max(told_at, listening_since)
    if now - heard_at <= timing.unseen:
        return None if audit.state is AuditState.STOPPING else _too_long(audit, timing, now)
    to = AuditState.FAILED if audit.state is not AuditState.STOPPING else audit.stops_as or AuditState.STOPPED
    return End(
        to=to,
        reason=f"no report for {_minutes(now - heard_at)} from its driver on {audit.host or 'another host'}",
    )


def _minutes(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def _last_words(log_tail: str) -> str:
    lines = [line for line in log_tail.splitlines() if line.strip()][-_WORDS_OF_A_LOG:]
    return f"; the end of its log: {' / '.join(lines)}" if lines else ", and its log is empty"
