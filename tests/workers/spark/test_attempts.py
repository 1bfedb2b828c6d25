"""The driver's book of attempts: who is current, who waits, when it is enough."""

from __future__ import annotations

import pickle

import pytest

from workers.spark.attempts import AttemptBook, AttemptPatience, VerdictKind
from workers.spark.messages import AttemptEnd

PATIENCE = AttemptPatience(healthy_s=100, first_wait_s=1, longest_wait_s=3, crashing_after=3, new_application_after=8)


def book(tasks: int = 2) -> AttemptBook:
    return AttemptBook(tasks=tasks, patience=PATIENCE)


def test_a_first_attempt_begins_at_once() -> None:
    assert book().begin(0, 0, now_s=0) == 0


def test_a_later_attempt_supersedes_the_earlier_one() -> None:
    attempts = book()
    attempts.begin(0, 0, now_s=0)
    assert attempts.is_current(0, 0)
    attempts.begin(0, 1, now_s=1)
    assert not attempts.is_current(0, 0)
    assert attempts.is_current(0, 1)
    assert attempts.begin(0, 0, now_s=2) is None


def test_a_killed_worker_is_replaced_at_once_and_only_then_waits_grow() -> None:
    attempts = book()
    waits = [attempts.begin(0, attempt, now_s=attempt) for attempt in range(5)]
    assert waits == [0, 0, 1, 2, 3]


def test_a_kill_by_a_drill_is_no_failure_however_often() -> None:
    attempts = book()
    for attempt in range(3 * PATIENCE.new_application_after):
        assert attempts.begin(0, attempt, now_s=attempt) == 0
        attempts.end(0, attempt, AttemptEnd.DRILLED, "killed by a drill", now_s=attempt)
    assert attempts.verdict() is None
    assert attempts.active == 0


def test_a_reported_crash_counts_once() -> None:
    attempts = book()
    attempts.begin(0, 0, now_s=0)
    attempts.end(0, 0, AttemptEnd.CRASHED, "broker away", now_s=1)
    assert attempts.begin(0, 1, now_s=2) == 0
    attempts.end(0, 1, AttemptEnd.CRASHED, "broker away", now_s=3)
    assert attempts.begin(0, 2, now_s=4) == 1


def test_failures_of_one_task_do_not_make_another_wait() -> None:
    attempts = book()
    for attempt in range(3):
        attempts.begin(0, attempt, now_s=attempt)
    assert attempts.begin(1, 0, now_s=4) == 0


def test_an_attempt_that_worked_for_a_while_ends_the_row_of_failures() -> None:
    attempts = book()
    for attempt in range(5):
        attempts.begin(0, attempt, now_s=attempt)
    assert attempts.begin(0, 5, now_s=4 + 3 + 99) == 3, "it worked for 99 s only, after a wait of 3 s"
    assert attempts.begin(0, 6, now_s=106 + 3 + 100) == 0


def test_an_attempt_that_has_ended_is_not_healthy_by_lying_there() -> None:
    attempts = book()
    for attempt in range(4):
        attempts.begin(0, attempt, now_s=attempt)
        attempts.end(0, attempt, AttemptEnd.CRASHED, "out of memory", now_s=attempt)
    assert attempts.begin(0, 4, now_s=5000) == 3
    assert attempts.crashing(now_s=5000) == 1


def test_failures_are_retried_with_waits_of_up_to_five_minutes() -> None:
    patience = AttemptPatience()
    assert [patience.wait_s(n) for n in (0, 1, 2, 3, 10, 11, 12, 1_000_000)] == [0, 0, 0.5, 1, 128, 256, 300, 300]


def test_a_task_that_fails_again_and_again_is_counted_until_it_was_healthy() -> None:
    attempts = book()
    for attempt in range(3):
        attempts.begin(0, attempt, now_s=attempt)
        assert attempts.crashing(now_s=attempt) == 0
        attempts.end(0, attempt, AttemptEnd.CRASHED, f"error {attempt}", now_s=attempt)
    assert attempts.crashing(now_s=3) == 1
    attempts.begin(0, 3, now_s=3)
    assert attempts.why_waits(0) == "failed 3 times in a row, next attempt after 2 s: error 2"
    assert attempts.crashing(now_s=5 + 99) == 1
    assert attempts.crashing(now_s=5 + 100) == 0


def test_many_failures_in_a_row_ask_for_a_new_application_with_the_last_error() -> None:
    attempts = book()
    for attempt in range(8):
        attempts.begin(0, attempt, now_s=attempt)
        assert attempts.verdict() is None
        attempts.end(0, attempt, AttemptEnd.CRASHED, f"error {attempt}", now_s=attempt)
    verdict = attempts.verdict()
    assert verdict is not None
    assert verdict.kind is VerdictKind.FAILED, "which is transient: the instance is leased again"
    assert "task 0 failed 8 times in a row" in verdict.message
    assert "error 7" in verdict.message


def test_a_permanent_error_ends_the_instance_at_once() -> None:
    attempts = book()
    attempts.begin(1, 0, now_s=0)
    attempts.end(1, 0, AttemptEnd.HOPELESS, "record refused at t-0@17", now_s=1)
    verdict = attempts.verdict()
    assert verdict is not None
    assert (verdict.kind, verdict.message) == (VerdictKind.HOPELESS, "task 1: record refused at t-0@17")


def test_a_permanent_error_counts_though_the_attempt_never_began() -> None:
    attempts = book()
    attempts.end(0, 0, AttemptEnd.HOPELESS, "Python differs", now_s=0)
    assert attempts.verdict() is not None


def test_the_newest_attempt_that_was_superseded_has_its_successor_elsewhere() -> None:
    attempts = book()
    attempts.begin(0, 0, now_s=0)
    attempts.end(0, 0, AttemptEnd.SUPERSEDED, "fenced", now_s=1)
    verdict = attempts.verdict()
    assert verdict is not None
    assert verdict.kind is VerdictKind.SUPERSEDED


@pytest.mark.parametrize("end", list(AttemptEnd))
def test_the_report_of_a_zombie_changes_nothing(end: AttemptEnd) -> None:
    attempts = book()
    attempts.begin(0, 0, now_s=0)
    attempts.begin(0, 1, now_s=1)
    attempts.end(0, 0, end, "old", now_s=2)
    assert attempts.verdict() is None
    assert attempts.begin(0, 2, now_s=3) == 1, "two attempts were lost, not three"


def test_the_book_of_a_stage_of_months_does_not_grow() -> None:
    book = AttemptBook(tasks=2)

    def attempts_until(last: int, *, begin: int) -> int:
        for attempt in range(begin, last):
            for task in range(2):
                book.begin(task, attempt, now_s=attempt * 1000.0)
                book.end(task, attempt, AttemptEnd.CRASHED, "the same again", now_s=attempt * 1000.0 + 1)
        return len(pickle.dumps(book.__dict__))

    after_few = attempts_until(300, begin=256)
    assert attempts_until(3000, begin=300) <= after_few + 64
