"""`python -m tests.fault_suite.recovery.static_members`: the same losses with and without `group.instance.id`.

One broker, two task processes, sessions of 6 s. Its results are in docs/measured/standstill.md.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from enum import StrEnum
from itertools import product
from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaCluster
from tests.fault_suite.plan import Kind
from tests.fault_suite.reading import Follower
from tests.fault_suite.standstill import Standstills
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess
from tests.support.waiting import wait_for

RESULTS = Path(__file__).parents[2] / "results" / "static_members.json"
_SESSION_MS = 6_000
_PARTITIONS = 4
_WITHIN_S = 60.0
_RECORDS_PER_S = 1_000


class Membership(StrEnum):
    DYNAMIC = "dynamic"
    STATIC = "static"


class End(StrEnum):
    KILLED_AND_BACK = "killed, started again at once"
    KILLED = "killed, not started again"
    DRAINED = "drained, not started again"


class Tried(msgspec.Struct, frozen=True):
    """refused: with which error the one that was started again ended, as it got no partitions; None: it came back, or
    was not started again."""

    end: End
    protocol: GroupProtocol
    membership: Membership
    standstill_s: float
    session_s: float
    refused: str | None = None


def tried(bootstrap_servers: str, folder: Path, end: End, protocol: GroupProtocol, membership: Membership) -> Tried:
    """One loss of one of two tasks, from before it until records of every partition come again."""
    pipeline = TestPipeline.create(
        bootstrap_servers, partitions=_PARTITIONS, group_protocol=protocol, session_timeout_ms=_SESSION_MS
    )
    standstills = Standstills()

    def launch(task: int, attempt: int) -> TaskProcess:
        overrides = {"group.instance.id": f"task-{task}"} if membership is Membership.STATIC else {}
        specification = pipeline.specification(task=task, attempt=attempt, consumer_overrides=overrides)
        return TaskProcess(specification, folder / f"{pipeline.source}-{task}-{attempt}")

    def wait_until_it_flows(since: float) -> None:
        for partition in range(_PARTITIONS):
            standstills.expected(partition, since)
        wait_for(
            lambda: not standstills.silent_since(since),
            _WITHIN_S,
            lambda: f"outputs of every partition; none from {standstills.silent_since(since)}",
        )

    def wait_until_shared(task: TaskProcess) -> None:
        wait_for(
            lambda: len(task.last().partitions) == _PARTITIONS // 2,
            _WITHIN_S,
            lambda: f"half of the partitions; last reported {task.last()}",
        )

    refused: str | None = None
    with ExitStack() as stack:
        tasks = [launch(task, 0) for task in range(2)]
        for task in tasks:
            stack.callback(task.close)
        for task in tasks:
            wait_until_shared(task)
        follower = Follower(bootstrap_servers, pipeline.sink, standstills)
        feeder = Feeder(pipeline, records_per_s=_RECORDS_PER_S)
        follower.start()
        feeder.start()
        wait_until_it_flows(time.monotonic())
        standstills.begun(Kind.WORKER_KILLED, time.monotonic())
        os.kill(tasks[0].pid, signal.SIGTERM if end is End.DRAINED else signal.SIGKILL)
        tasks[0].wait_for_exit()
        if end is End.KILLED_AND_BACK:
            tasks[0] = launch(0, 1)
            stack.callback(tasks[0].close)
            refused = refusal(tasks[0])
        wait_until_it_flows(time.monotonic())
        feeder.stop()
        follower.finish({}, deadline_s=_WITHIN_S)
    standstill_s = round(standstills.by_kind.get(Kind.WORKER_KILLED, 0.0), 2)
    return Tried(end, protocol, membership, standstill_s, _SESSION_MS / 1000, refused)


def refusal(task: TaskProcess) -> str | None:
    """Waits until it has its share, or has ended without one; with which error."""
    wait_for(
        lambda: len(task.last().partitions) == _PARTITIONS // 2 or not task.is_running,
        _WITHIN_S,
        lambda: f"half of the partitions, or its end; last reported {task.last()}",
    )
    if task.is_running:
        return None
    return next((report.error for report in reversed(task.reports()) if report.error), "it ended without a report")


def main() -> None:
    settings = {**TEST_BROKER_SETTINGS, "group.consumer.session.timeout.ms": str(_SESSION_MS)}
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-static-") as folder,
        KafkaCluster.start(overrides=settings) as kafka,
    ):
        found: list[Tried] = []
        for end, protocol, membership in product(End, GroupProtocol, Membership):
            found.append(tried(kafka.bootstrap_servers, Path(folder), end, protocol, membership))
            # Each at once: a run that is cut off has not been in vain.
            RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
            sys.stdout.write(msgspec.json.encode(found[-1]).decode() + "\n")


if __name__ == "__main__":
    main()
