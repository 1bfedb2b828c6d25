"""When what happened in one run, by what the product has recorded of it. All times are seconds since 1970."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

Moments = Mapping[str, float]


class Part(NamedTuple):
    """A part of the wait: it ends at the moment `until`, and begins where the one before ended."""

    until: str
    what: str


START = (
    Part("answered", "request answered"),
    Part("picked_up", "picked up by the reconciler"),
    Part("submitted", "spark-submit begun"),
    Part("driver", "driver's JVM up, Python driver begun"),
    Part("context", "SparkContext up"),
    Part("claimed", "lease claimed"),
    Part("worker", "executor's JVM up, Python worker forked"),
    Part("begun", "worker's imports, registered with the driver"),
    Part("running", "transactional id initialised, subscribed"),
    Part("assigned", "group joined, partitions assigned"),
    Part("committed", "first record readable as committed"),
)
DRAIN = (
    Part("answered", "request answered"),
    Part("heard", "received by the task"),
    Part("drained", "committed, group left, clients closed"),
    Part("stage_ended", "stage ended, seen by the driver"),
    Part("context_stopped", "SparkContext stopped"),
    Part("stopped", "outcome reported, run stopped"),
)
_COARSE_S = 0.05
"""The start time of a process has a resolution of 10 ms, and servers and processes write with clocks of their own."""
_LINE = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) \w+ {said}"
_CONTEXT = r"workers\.spark\.driver: application "
_ENDING = r"workers\.spark\.driver: the stage has ended: "
_ENDED = r"workers\.spark\.driver: ended: "


def line_at(text: str, said: str) -> float:
    """When the first line of a log that says this was written. Raises AssertionError."""
    found = re.search(_LINE.replace("{said}", said), text, re.MULTILINE)
    assert found is not None, f"no line {said!r} in:\n{text[-3000:]}"
    # As Python's logging writes it, by the time of the machine's own zone.
    at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").astimezone(UTC)
    return at.timestamp() + int(found[2]) / 1000


def process_started_at(pid: int) -> float:
    """When a process was started, by the clock that everything else here is told by.

    /proc counts from a boot that it knows to the second; how far that is off is seen on a process of our own.
    """
    asked = time.time()
    with subprocess.Popen(["sleep", "0"]) as own:
        off_s = psutil.Process(own.pid).create_time() - asked
    return psutil.Process(pid).create_time() - off_s


def parsed(moment: str) -> float:
    """The moments in the API's answers."""
    return datetime.fromisoformat(moment).timestamp()


def parts_s(moments: Moments, parts: tuple[Part, ...], *, asked: float) -> dict[str, float]:
    """How long each part took.

    Raises AssertionError when one ends before the one before: by more than processes' start times are known to.
    """
    found: dict[str, float] = {}
    before = asked
    for part in parts:
        took_s = moments[part.until] - before
        assert took_s > -_COARSE_S, f"{part.until} came {-took_s:.3f} s before what comes first: {dict(moments)}"
        found[part.until] = round(max(0.0, took_s), 3)
        before = max(before, moments[part.until])
    return found


def task_log(spark_folder: Path, application_id: str) -> str:
    """The logs of an application's executors, their Python workers included."""
    files = spark_folder.glob(f"worker-*/work/{application_id}/*/stderr")
    return "\n".join(file.read_text(errors="replace") for file in sorted(files))


def of_driver(text: str) -> dict[str, float]:
    """The moments of a driver's log, those that it has come to."""
    return {
        name: line_at(text, said)
        for name, said in (("context", _CONTEXT), ("stage_ended", _ENDING), ("context_stopped", _ENDED))
        if re.search(said, text)
    }


def of_tasks(text: str) -> dict[str, float]:
    """The moments of the log of one task's executor, those that it has come to."""
    said = "workers\\.spark\\.tasks: attempt 0 of task 0 begins"
    states = {"running": "running", "heard": "draining", "drained": "drained"}
    found = {name: rf"workers\.reporting: attempt 0 of task 0 is {state}" for name, state in states.items()}
    return {name: line_at(text, line) for name, line in {"begun": said, **found}.items() if re.search(line, text)}


def assigned_at(events: list[Mapping[str, Any]]) -> float:
    """When partitions were first assigned, by the events of a run's tasks. Raises AssertionError."""
    times = [parsed(event["at"]) for event in events if event["kind"] == "assigned"]
    assert times, events
    return min(times)
