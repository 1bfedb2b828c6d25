"""The next step of an audit, from its row and the observed state of its driver."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.runs.observation import ProcessWord
from app.products.audits.audit import Audit, AuditProgress, AuditState
from app.products.audits.decision import (
    Adopt,
    AskToStop,
    AuditTiming,
    DriverWord,
    End,
    SeenDriver,
    Signal,
    SubmitAgain,
    TakeWord,
    decide,
)
from tests.support.audit_samples import HOUR, NOON, audit

ALIVE = SeenDriver(process=ProcessWord.ALIVE, jvm_pid=7, started_at=NOON)
GONE = SeenDriver(process=ProcessWord.GONE, log_tail="starting\n\nOutOfMemoryError: Java heap space\n")
ELSEWHERE = SeenDriver(process=ProcessWord.UNKNOWN)
TIMING = AuditTiming()
RUNNING = audit(AuditState.RUNNING, jvm_pid=7, submitted_at=NOON, host="w1")
MINUTE = timedelta(minutes=1)


def decided(
    one: Audit, seen: SeenDriver, after: timedelta = timedelta(0), *, listening_for: timedelta = 24 * HOUR
) -> object:
    now = NOON + after
    return decide(one, seen, timing=TIMING, listening_since=now - listening_for, now=now)


def test_running_audit_is_stopped_only_after_the_limit() -> None:
    assert decided(RUNNING, ALIVE, TIMING.longest) is None
    asked = decided(RUNNING, ALIVE, TIMING.longest + MINUTE)
    assert isinstance(asked, AskToStop)
    assert asked.reason == "it was stopped after 121 minutes: the limit is 120 minutes"


def test_outcome_file_has_precedence() -> None:
    word = DriverWord(kind="done", message="")
    left = SeenDriver(process=ProcessWord.GONE, left=word)
    for state in (AuditState.SUBMITTING, AuditState.RUNNING, AuditState.STOPPING):
        assert decided(audit(state), left) == TakeWord(word=word)


def test_driver_without_an_outcome_has_failed_with_the_end_of_its_log() -> None:
    end = decided(RUNNING, GONE)
    assert end == End(
        to=AuditState.FAILED,
        reason="its process has ended without an outcome; the end of its log: starting / "
        "OutOfMemoryError: Java heap space",
    )


def test_submission_without_a_process_is_repeated() -> None:
    assert decided(audit(AuditState.SUBMITTING), GONE) == SubmitAgain()


def test_driver_of_another_server_is_adopted() -> None:
    assert decided(audit(AuditState.SUBMITTING), ALIVE) == Adopt(jvm_pid=7, started_at=NOON)


def test_stop_sends_sigterm_and_then_sigkill() -> None:
    stopping = audit(AuditState.STOPPING, jvm_pid=7, stops_as=AuditState.STOPPED, reason="stopped by anna")
    assert decided(stopping, ALIVE) == Signal(is_kill=False)
    assert decided(stopping, ALIVE, TIMING.stop + MINUTE) == Signal(is_kill=True)
    assert decided(stopping, GONE) == End(to=AuditState.STOPPED, reason="stopped by anna")


@pytest.mark.parametrize(
    ("state", "stops_as", "to"),
    [
        (AuditState.RUNNING, None, AuditState.FAILED),
        (AuditState.STOPPING, AuditState.STOPPED, AuditState.STOPPED),
        (AuditState.STOPPING, AuditState.FAILED, AuditState.FAILED),
    ],
)
def test_driver_on_another_host_fails_only_after_a_long_time_without_reports(
    state: AuditState, stops_as: AuditState | None, to: AuditState
) -> None:
    heard = AuditProgress(stage="reading", heard_at=NOON + 10 * MINUTE)
    one = audit(state, jvm_pid=7, host="w2", progress=heard, stops_as=stops_as)
    assert decided(one, ELSEWHERE, 10 * MINUTE + TIMING.unseen) is None
    end = decided(one, ELSEWHERE, 11 * MINUTE + TIMING.unseen)
    assert end == End(to=to, reason="no report for 6 minutes from its driver on w2")


def test_time_without_a_server_does_not_count_against_a_driver_on_another_host() -> None:
    one = audit(AuditState.RUNNING, jvm_pid=7, host="w2", submitted_at=NOON)
    assert decided(one, ELSEWHERE, 30 * MINUTE, listening_for=TIMING.unseen) is None
    end = decided(one, ELSEWHERE, 30 * MINUTE, listening_for=TIMING.unseen + MINUTE)
    assert end == End(to=AuditState.FAILED, reason="no report for 6 minutes from its driver on w2")


def test_driver_on_another_host_has_the_same_limit() -> None:
    late = TIMING.longest + MINUTE
    heard = AuditProgress(stage="reading", heard_at=NOON + late)
    one = audit(AuditState.RUNNING, jvm_pid=7, host="w2", submitted_at=NOON, progress=heard)
    assert isinstance(decided(one, ELSEWHERE, late), AskToStop)
    stopping = audit(AuditState.STOPPING, jvm_pid=7, host="w2", submitted_at=NOON, progress=heard)
    assert decided(stopping, ELSEWHERE, late) is None
