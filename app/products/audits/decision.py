"""What the server does next for one audit that lives, from its row and what is seen of its driver."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.runs.observation import ProcessWord
from app.products.audits.audit import Audit, AuditState
from app.products.audits.result import AuditResult

_WORDS_OF_A_LOG = 5


class AuditTiming(msgspec.Struct, frozen=True, kw_only=True):
    """longest: an audit that works for longer is stopped. stop: what does not end by itself within it is killed.

    unseen: a driver on another host of which nothing is heard for so long, while somebody listened, has failed.
    """

    longest: timedelta = timedelta(hours=2)
    stop: timedelta = timedelta(seconds=30)
    unseen: timedelta = timedelta(minutes=5)


class DriverWord(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit's driver left behind: how it ended, in its words."""

    kind: str
    message: str
    result: AuditResult | None = None


class SeenDriver(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen of the driver from outside. jvm_pid, started_at: of the process that was found."""

    process: ProcessWord
    jvm_pid: int | None = None
    started_at: datetime | None = None
    left: DriverWord | None = None
    log_tail: str = ""


class Adopt(msgspec.Struct, frozen=True, kw_only=True):
    """The driver that another server started and did not write down."""

    jvm_pid: int
    started_at: datetime


class SubmitAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was started: whoever was about to is gone."""


class TakeWord(msgspec.Struct, frozen=True, kw_only=True):
    """No server heard how it ended; the file says it."""

    word: DriverWord


class End(msgspec.Struct, frozen=True, kw_only=True):
    to: AuditState
    reason: str


class AskToStop(msgspec.Struct, frozen=True, kw_only=True):
    """It has worked for too long: STOPPING, then FAILED with the reason."""

    reason: str


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """SIGTERM, or SIGKILL once it had its time."""

    is_kill: bool


Action = Adopt | SubmitAgain | TakeWord | End | AskToStop | Signal


def decide(
    audit: Audit, seen: SeenDriver, *, timing: AuditTiming, listening_since: datetime, now: datetime
) -> Action | None:
    """The next step of an audit that was submitted; None: wait.

    A file that says how it ended comes before everything else, as the driver writes it last. listening_since: before
    it no server heard anybody, so a driver's silence says nothing of it.
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
    return End(to=AuditState.FAILED, reason=f"its process is gone without a word{_last_words(seen.log_tail)}")


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
    return AskToStop(reason=f"it was stopped after {_minutes(worked)}: an audit may take {_minutes(timing.longest)}")


def _unseen(audit: Audit, timing: AuditTiming, listening_since: datetime, now: datetime) -> Action | None:
    """Its driver hears of a stop when it next says how far it is."""
    told_at = audit.since if audit.progress is None else max(audit.since, audit.progress.heard_at)
    heard_at = max(told_at, listening_since)
    if now - heard_at <= timing.unseen:
        return None if audit.state is AuditState.STOPPING else _too_long(audit, timing, now)
    to = AuditState.FAILED if audit.state is not AuditState.STOPPING else audit.stops_as or AuditState.STOPPED
    return End(
        to=to,
        reason=f"nothing was heard for {_minutes(now - heard_at)} of its driver on {audit.host or 'another host'}",
    )


def _minutes(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def _last_words(log_tail: str) -> str:
    lines = [line for line in log_tail.splitlines() if line.strip()][-_WORDS_OF_A_LOG:]
    return f"; the end of its log: {' / '.join(lines)}" if lines else ", and its log is empty"
