"""The reason of a driver's end that it did not report, from its exit code and its log."""

from __future__ import annotations

import re
import signal

_BANNERS = re.compile(
    r"^(NOTE: )?Picked up \w+:|VM warning:|^WARNING: |^SLF4J|^Using Spark's default log4j|^Setting default log level"
    r"|^To adjust logging level|^Using incubator modules"
)
"""Output of a JVM and Spark at their start; an option in it may be called ...Error."""
_TROUBLE = re.compile(
    r"Error|ERROR|Exception|CRITICAL|FATAL|[Ff]atal error|insufficient memory|Unrecognized|Cannot allocate|SIG[A-Z]{3,}"
    r"|No such file or directory|Permission denied|command not found"
)
_ROUTINE = re.compile(r"\b(INFO|DEBUG|WARN)\b")
_STACK = re.compile(r"^(at |\.\.\. \d+ more|File \")")
_REASON_FOLLOWS = ("Error occurred during initialization of VM", "A fatal error has been detected by")
LONGEST_QUOTE = 300


def why_it_ended(log: str, *, exit_code: int | None, has_claimed: bool) -> str:
    """Return one sentence: the first error of a JVM that died early, the last one of a driver that had worked.

    Args:
        log: the end of the output of driver and spark-submit.
        exit_code: negative, or above 128 as in shells, for a signal; None if another server started it.
        has_claimed: whether its lease was claimed.
    """
    lines = [line.strip().removeprefix("# ").strip() for line in log.splitlines() if line.strip(" #\t")]
    lines = [line for line in lines if not _BANNERS.search(line)]
    errors = [number for number, line in enumerate(lines) if _TROUBLE.search(line) and not _STACK.search(line)]
    loud = [number for number in errors if not _ROUTINE.search(lines[number])] or errors
    if loud:
        return f"its driver ended without a report; its log says: {_quoted(lines, loud[-1 if has_claimed else 0])}"
    if (name := _signal_of(exit_code)) is not None:
        why = ", by a user or for lack of memory" if name == "SIGKILL" else ""
        return f"its driver was killed by {name}{why}"
    last = lines[-1] if lines else ""
    if last and not _ROUTINE.search(last):
        return f"its driver ended without a report; its log says: {last[:LONGEST_QUOTE]}"
    if exit_code is not None:
        return f"its driver ended with exit code {exit_code} and logged no error"
    return "its driver logged no error: it was probably killed (see the kernel's log for memory)"


def _quoted(lines: list[str], number: int) -> str:
    """Return the error, with the next line if the error only announces it."""
    line = lines[number]
    follows = lines[number + 1] if number + 1 < len(lines) else ""
    if line.startswith(_REASON_FOLLOWS) and follows:
        line = f"{line} {follows}"
    return line[:LONGEST_QUOTE]


def _signal_of(exit_code: int | None) -> str | None:
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
