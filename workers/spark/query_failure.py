"""The reason of a query's failure in one sentence, and its kind: no plan, the sink's refusals, and all other errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from workers.spark.spark_errors import last_python_line, sentence

_REFUSED = re.compile(r"io\.fenceline\.spark\.(Refusal|Unavailable|Takeover): ([^\n]*)")
_BAD_RECORD = re.compile(r"\[USER_RAISED_EXCEPTION\] (the value of .* does not fit the schema of [^\s.]*)")
"""The error that workers/spark/query_plan.py raises, as Spark reports it."""
_START_OVER = "fenceline_spark.start_over(…)"
_NEW_CHECKPOINT = "fenceline new-checkpoint"
"""The command of a pipeline; the sink names the call of its library."""
_SETTLE = "fenceline_spark.settle(…, committed=…)"
_SETTLE_PIPELINE = "fenceline_spark.settle and the pipeline's group and ids (docs/dataframe-pipelines.md)"
_CONCURRENT = "org.apache.spark.SparkConcurrentModificationException"
"""Another driver has written the batch's file in the checkpoint: in `offsets` or in `commits`."""
_SPARKS = ("org.apache.spark.", "java.lang.RuntimeException", "java.util.concurrent.")


class FailureKind(StrEnum):
    """REFUSAL: the sink or a bad record; a restart would not help. TAKEOVER: a newer driver has claim or checkpoint.

    ERROR: anything else; a restart may help.
    """

    REFUSAL = "refusal"
    TAKEOVER = "takeover"
    ERROR = "error"


_KINDS = {"Refusal": FailureKind.REFUSAL, "Takeover": FailureKind.TAKEOVER, "Unavailable": FailureKind.ERROR}


class PlanError(Exception):
    """The definition has no plan; `field` is the field to change, such as `transform.streams.0.schema`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class QueryFailedError(Exception):
    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def failure_of(error: Any, *, what: str = "") -> QueryFailedError:
    """The failure for an exception of PySpark, or of Java itself."""
    origin: Any = getattr(error, "_origin", None) if isinstance(error, BaseException) else error
    if origin is None:
        return QueryFailedError(FailureKind.ERROR, f"{what}{sentence(error)}")
    return judged([str(cause.toString()) for cause in _causes(origin)], what=what)


def judged(chain: list[str], *, what: str = "") -> QueryFailedError:
    """The failure for a chain of Java exceptions, as `class: message`, the outermost first."""
    for text in reversed(chain):
        refused = _REFUSED.search(text)
        if refused is not None:
            message = refused[2].replace(_START_OVER, _NEW_CHECKPOINT).replace(_SETTLE, _SETTLE_PIPELINE)
            return QueryFailedError(_KINDS[refused[1]], what + message)
        bad = _BAD_RECORD.search(text)
        if bad is not None:
            return QueryFailedError(FailureKind.REFUSAL, what + bad[1])
    if any(text.startswith(_CONCURRENT) for text in chain):
        return QueryFailedError(FailureKind.TAKEOVER, f"{what}another driver writes to the checkpoint of this query.")
    return QueryFailedError(FailureKind.ERROR, what + _line(chain[-1] if chain else "Spark reports no error"))


def _line(text: str) -> str:
    """Python's last line, else the message; with the class where it is not one of Spark's."""
    if "Traceback (most recent call last)" in text:
        return last_python_line(text)
    name, _, message = text.partition(": ")
    if not message:
        return text
    return sentence(message) if name.startswith(_SPARKS) else f"{name.rpartition('.')[2]}: {sentence(message)}"


def _causes(throwable: Any) -> Iterator[Any]:
    for _ in range(50):  # a chain of causes may be a ring
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()
