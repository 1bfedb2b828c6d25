"""The sentence and the kind of a query's failure, from the exceptions that Spark shows."""

from __future__ import annotations

import pytest

from workers.spark.query_failure import FailureKind, judged

_TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent"
    " failure: Lost task 0.3 in stage 3.0 (TID 9) (127.0.0.1 executor driver): "
)


@pytest.mark.parametrize(
    ("chain", "kind", "message"),
    [
        (
            ["org.apache.spark.sql.streaming.StreamingQueryException: x", "io.fenceline.spark.Refusal: no topic."],
            FailureKind.REFUSAL,
            "no topic.",
        ),
        (
            ["io.fenceline.spark.Refusal: checkpoint c is new. Start over: fenceline_spark.start_over(…)."],
            FailureKind.REFUSAL,
            "checkpoint c is new. Start over: fenceline new-checkpoint.",
        ),
        (
            ["io.fenceline.spark.Refusal: gone. Use fenceline_spark.settle(…, committed=…)."],
            FailureKind.REFUSAL,
            "gone. Use fenceline_spark.settle and the pipeline's group and ids (docs/dataframe-pipelines.md).",
        ),
        ([f"{_TASK}io.fenceline.spark.Takeover: taken over.\n\tat a.b"], FailureKind.TAKEOVER, "taken over."),
        (
            [
                "org.apache.spark.SparkConcurrentModificationException: Several streaming queries use file:/c/offsets.",
                "org.apache.hadoop.fs.FileAlreadyExistsException: Rename destination file:/c/offsets/6 already exists.",
            ],
            FailureKind.TAKEOVER,
            "another driver writes to the checkpoint of this query.",
        ),
        (["io.fenceline.spark.Unavailable: no broker.", "a.b.TimeoutException: t"], FailureKind.ERROR, "no broker."),
        (
            [_TASK, "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] bad record SQLSTATE: P0001"],
            FailureKind.ERROR,
            "bad record",
        ),
        (
            [f"{_TASK}a.B: [USER_RAISED_EXCEPTION] the value of in-0@17 does not fit the schema of s SQLSTATE: P1\n"],
            FailureKind.REFUSAL,
            "the value of in-0@17 does not fit the schema of s",
        ),
        (
            ["org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host it."],
            FailureKind.ERROR,
            "UnknownTopicOrPartitionException: This server does not host it.",
        ),
        (
            ["a.PythonException: Traceback (most recent call last):\n  x\nKeyError: 'a'\n\tat b"],
            FailureKind.ERROR,
            "KeyError: 'a'",
        ),
    ],
)
def test_the_innermost_reason_is_the_message(chain: list[str], kind: FailureKind, message: str) -> None:
    found = judged(chain)
    assert (found.kind, found.message) == (kind, message)
