"""Spark's errors in one line each, without Java's stack, and the share of the master in them."""

from __future__ import annotations

import re

import pyspark
from py4j.protocol import Py4JJavaError

_OUR_SIDE = ("IllegalArgumentException", "BindException")
"""A refused setting or address of the driver's own: no master was asked."""

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ?")
_SQLSTATE = re.compile(r" ?SQLSTATE: \w{5}")


class SparkGoneError(Exception):
    """The driver's JVM does not answer any more, or its context has stopped."""


def last_python_line(error: str) -> str:
    """The line of a Spark error with the cause: the last before Java's stack, without Spark's own code."""
    telling = [line for line in _before_the_stack(error) if not line.startswith("SQLSTATE")]
    return telling[-1] if telling else error[:200]


def first_line(error: BaseException) -> str:
    """The most useful line of an error: Python's last, else the Java exception's first, else its class."""
    lines = _before_the_stack(str(error))
    if any("Traceback (most recent call last)" in line for line in lines):
        return last_python_line(str(error))
    # Py4J's own first line only names the call; Java's exception follows behind a colon.
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter([*java, *lines]), type(error).__name__)


def sentence(error: BaseException | str) -> str:
    """The first line of an error of Spark SQL, without its condition, SQLSTATE and plan."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return _SQLSTATE.sub("", _CONDITION.sub("", line)).rstrip(" ;")


def not_taken(master: str, error: BaseException) -> str | None:
    """The sentence for an application that ended before it had an executor; None if no master is the cause.

    If a standalone master is away or has another version, Spark stops the context after a minute, without a report to
    us. We then see the error of the next call.
    """
    java = error.__cause__ if isinstance(error, SparkGoneError) else error
    if not master.startswith("spark://") or not isinstance(java, Py4JJavaError):
        return None
    reason = first_line(java)
    if any(name in reason for name in _OUR_SIDE):
        return None
    return (
        f"the Spark master {master} did not take the application: {reason}; "
        f"see that it runs and is Spark {pyspark.__version__}, or change the pipeline's master"
    )


def _before_the_stack(error: str) -> list[str]:
    return [line.strip() for line in error.split("\n\tat ", 1)[0].splitlines() if line.strip()]
