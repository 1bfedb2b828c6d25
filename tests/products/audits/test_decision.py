"""What the server does next for an audit, by its row and what is seen of its driver."""

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


def test_one_that_works_is_left_alone_until_it_has_worked_for_too_long() -> None:
    assert decided(RUNNING, ALIVE, TIMING.longest) is None
    asked = decided(RUNNING, ALIVE, TIMING.longest + MINUTE)
    assert isinstance(asked, AskToStop)
    assert asked.reason == "it was stopped after 121 minutes: an audit may take 120 minutes"


def test_what_the_driver_left_behind_counts_before_everything_else() -> None:
    word = DriverWord(kind="done", message="")
    left = SeenDriver(process=ProcessWord.GONE, left=word)
    for state in (AuditState.SUBMITTING, AuditState.RUNNING, AuditState.STOPPING):
        assert decided(audit(state), left) == TakeWord(word=word)


def test_a_driver_that_is_gone_without_a_word_has_failed_with_the_end_of_its_log() -> None:
    end = decided(RUNNING, GONE)
    assert end == End(
        to=AuditState.FAILED,
        reason="its process is gone without a word; the end of its log: starting / OutOfMemoryError: Java heap space",
    )


def test_a_submission_that_came_to_nothing_is_made_again() -> None:
    assert decided(audit(AuditState.SUBMITTING), GONE) == SubmitAgain()


def test_a_driver_that_another_server_started_is_adopted() -> None:
    assert decided(audit(AuditState.SUBMITTING), ALIVE) == Adopt(jvm_pid=7, started_at=NOON)


def test_a_stop_is_asked_first_and_then_forced() -> None:
    stopping = audit(AuditState.STOPPING, jvm_pid=7, stops_as=AuditState.STOPPED, reason="anna stopped it")
    assert decided(stopping, ALIVE) == Signal(is_kill=False)
    assert decided(stopping, ALIVE, TIMING.stop + MINUTE) == Signal(is_kill=True)
    assert decided(stopping, GONE) == End(to=AuditState.STOPPED, reason="anna stopped it")


@pytest.mark.parametrize(
    ("state", "stops_as", "to"),
    [
        (AuditState.RUNNING, None, AuditState.FAILED),
        (AuditState.STOPPING, AuditState.STOPPED, AuditState.STOPPED),
        (AuditState.STOPPING, AuditState.FAILED, AuditState.FAILED),
    ],
)
def test_a_driver_on_another_host_is_given_up_only_after_long_silence(
    state: AuditState, stops_as: AuditState | None, to: AuditState
) -> None:
    heard = AuditProgress(stage="reading", heard_at=NOON + 10 * MINUTE)
    one = audit(state, jvm_pid=7, host="w2", progress=heard, stops_as=stops_as)
    assert decided(one, ELSEWHERE, 10 * MINUTE + TIMING.unseen) is None
    end = decided(one, ELSEWHERE, 11 * MINUTE + TIMING.unseen)
    assert end == End(to=to, reason="nothing was heard for 6 minutes of its driver on w2")


def test_silence_while_no_server_listened_says_nothing_of_a_driver_on_another_host() -> None:
    one = audit(AuditState.RUNNING, jvm_pid=7, host="w2", submitted_at=NOON)
    assert decided(one, ELSEWHERE, 30 * MINUTE, listening_for=TIMING.unseen) is None
    end = decided(one, ELSEWHERE, 30 * MINUTE, listening_for=TIMING.unseen + MINUTE)
    assert end == End(to=AuditState.FAILED, reason="nothing was heard for 6 minutes of its driver on w2")


def test_a_driver_on_another_host_may_not_work_for_ever_either() -> None:
    late = TIMING.longest + MINUTE
    heard = AuditProgress(stage="reading", heard_at=NOON + late)
    one = audit(AuditState.RUNNING, jvm_pid=7, host="w2", submitted_at=NOON, progress=heard)
    assert isinstance(decided(one, ELSEWHERE, late), AskToStop)
    stopping = audit(AuditState.STOPPING, jvm_pid=7, host="w2", submitted_at=NOON, progress=heard)
    assert decided(stopping, ELSEWHERE, late) is None
