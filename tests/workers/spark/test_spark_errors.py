"""One line of what Spark says, from texts as Py4J hands them on, and when the master gets the blame."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from tests.support.java_errors import SHUT_DOWN, JavaError
from workers.spark.spark_errors import SparkGoneError, first_line, not_taken

MASTER = "spark://10.0.0.7:7077"
STOPPED = """\
An error occurred while calling o20.sc.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:

org.apache.spark.api.java.JavaSparkContext.<init>(JavaSparkContext.scala:59)

(No active SparkContext.)

\tat org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:128)
"""
TASK_FAILED = """\
An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'msgspec'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
"""
REFUSED_SETTING = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] System memory 1 must be at least 2.
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:597)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SHUT_DOWN, "java.lang.IllegalStateException: SparkContext has been shutdown"),
        (STOPPED, "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
        (TASK_FAILED, "ModuleNotFoundError: No module named 'msgspec'"),
        ("Answer from Java side is empty", "Answer from Java side is empty"),
        ("", "JavaError"),
    ],
)
def test_an_error_comes_down_to_the_line_that_says_most(text: str, line: str) -> None:
    assert first_line(JavaError(text)) == line


def gone(cause: Exception) -> SparkGoneError:
    error = SparkGoneError("Spark's driver JVM does not answer")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [JavaError(SHUT_DOWN), gone(JavaError(SHUT_DOWN))], ids=["stage", "slots"])
def test_a_master_that_did_not_take_the_application_is_named_with_the_way_out(error: Exception) -> None:
    sentence = not_taken(MASTER, error)
    assert sentence is not None
    assert sentence.startswith(f"the Spark master {MASTER} did not take the application: java.lang.IllegalState")
    assert sentence.endswith(", or change the pipeline's master")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("master", "error"),
    [
        pytest.param("local[2]", JavaError(SHUT_DOWN), id="there is no master"),
        pytest.param(MASTER, JavaError(REFUSED_SETTING), id="a setting is refused on our side"),
        pytest.param(MASTER, gone(Py4JNetworkError("Answer from Java side is empty")), id="the JVM has died"),
        pytest.param(MASTER, RuntimeError("could not serialize"), id="Java was not asked"),
    ],
)
def test_the_master_is_not_named_for_other_errors(master: str, error: Exception) -> None:
    assert not_taken(master, error) is None
