"""Which of Spark's sentences say that a process is gone, and for how long a driver repeats it."""

from __future__ import annotations

import pytest

from app.core.wire.heartbeat import GoneAttempt, GoneBy
from workers.spark.gone import TOLD_FOR_S, FailedAttempt, GoneBook, gone_by

CRASHED = """org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:900)
Caused by: java.io.EOFException"""
LOST = "ExecutorLostFailure (executor 1 exited {by}) Reason: {reason}"


@pytest.mark.parametrize(
    ("error", "by"),
    [
        (CRASHED, GoneBy.WORKER),
        (
            LOST.format(by="caused by one of the running tasks", reason="Command exited with code 137"),
            GoneBy.EXECUTOR,
        ),
        (LOST.format(by="unrelated to the running tasks", reason="Executor heartbeat timed out after 125000 ms"), None),
        (LOST.format(by="caused by one of the running tasks", reason="Remote RPC client disassociated."), None),
        ("Traceback (most recent call last):\nKeyError: 'arrival'", None),
        ("TaskKilled (another attempt succeeded)", None),
        ("", None),
    ],
)
def test_only_a_sentence_about_an_ended_process_counts(error: str, by: GoneBy | None) -> None:
    assert gone_by(error) is by


def failed(attempt: int, *, task: int = 0, error: str = CRASHED) -> FailedAttempt:
    return FailedAttempt(task=task, attempt=attempt, error=error)


def test_the_newest_attempt_of_each_task_is_reported_for_a_minute() -> None:
    book = GoneBook()
    book.note([failed(0), failed(1), failed(0, task=2, error="KeyError: 'x'")], now_s=0.0)
    told = (GoneAttempt(task=0, attempt=1, by=GoneBy.WORKER),)
    assert book.told(now_s=1.0) == told
    # Spark goes on listing it, with those that fail later elsewhere.
    book.note([failed(0), failed(1), failed(3, task=1)], now_s=50.0)
    assert book.told(now_s=TOLD_FOR_S) == (*told, GoneAttempt(task=1, attempt=3, by=GoneBy.WORKER))
    assert book.told(now_s=TOLD_FOR_S + 0.1) == (GoneAttempt(task=1, attempt=3, by=GoneBy.WORKER),)
