"""One case on a broker: a task is frozen, others take over, it wakes up; the verifier counts what the sink holds."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from app.core.wire.heartbeat import EventKind
from tests.fault_suite.freeze_points import FreezePoints, Point
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.tasks import DEADLINE_S, TaskProcess, TaskThread, running
from tests.support.topics import delete_topics
from tests.support.waiting import wait_for
from tests.zombies.cases import Case, Mode, Wake, must_be_exact, must_double

PARTITIONS = 2
FIRST = 10
THEN = 100
"""Records of each partition: before the freeze, and those that the zombie has in its hands."""
_SESSION_MS = 3_000
_TIMEOUT_MS = {Wake.BEFORE: 60_000, Wake.AFTER: 8_000}
_LOOKS_EACH_S = 1.0
"""For transactions past their timeout, in the brokers of the tests."""
_TAKEN_WITHIN_S = 60.0
_CHANCE_S = 4.0
_IN_A_REBALANCE = (Point.IN_REVOKE, Point.BETWEEN_REVOKE_AND_ASSIGN)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the sink in the end, and the answer to the zombie when it woke up.

    `told`: the last error that its client returned, by Kafka's name, if there was one.
    """

    expected: int
    lost: int
    duplicated: int
    unexpected: int
    out_of_order: int
    told: str | None

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.out_of_order)


def contradiction(case: Case, found: Found) -> str | None:
    """Why the case is not as it must be; None: it is."""
    if must_be_exact(case) and not found.is_exact:
        return f"{case}: {found}"
    if must_double(case) and not found.duplicated:
        return f"{case}: nothing was duplicated, so the others show nothing: {found}"
    return None


def play(case: Case, *, bootstrap_servers: str, folder: Path) -> Found:
    """Play it to its end, with any result."""
    pipeline = TestPipeline.create(
        bootstrap_servers,
        partitions=PARTITIONS,
        group_protocol=case.protocol,
        session_timeout_ms=_SESSION_MS,
        transaction_timeout_ms=_TIMEOUT_MS[case.wake],
    )
    points = FreezePoints(folder / "freeze")
    zombie = _zombie(case, pipeline, points, folder)
    try:
        frozen_at, pid = _frozen(case, pipeline, points, zombie)
        with _takers(case, pipeline, points, at=frozen_at) as last:
            if case.wake is Wake.AFTER:
                _wait_for_the_timeout(case, frozen_at)
            before = len(zombie.reports())
            points.thaw(pid)
            zombie.ask_to_drain()
            zombie.wait_for_exit()
            told = _told(zombie, before)
            last.drain()
        return _found(case, pipeline, told)
    finally:
        points.thaw_all()
        zombie.close()


def _zombie(case: Case, pipeline: TestPipeline, points: FreezePoints, folder: Path) -> TaskProcess:
    # In a rebalance something must be open to be lost; else it is committed soon after it was read.
    interval_ms = 60_000 if case.point in _IN_A_REBALANCE else 100
    return TaskProcess(
        pipeline.specification(commit_interval_ms=interval_ms, **case.move.zombie.settings),
        folder / "process",
        environment=points.environment_of(os.environ),
    )


def _frozen(case: Case, pipeline: TestPipeline, points: FreezePoints, zombie: TaskProcess) -> tuple[float, int]:
    """The time of the freeze, by the monotonic clock, and its pid. The records that it is about to take are written."""
    if case.point is Point.BETWEEN_INIT_AND_FIRST_FETCH:
        points.ask(case.point)
        pipeline.feed(THEN)
        return time.monotonic(), points.wait_until_frozen(case.point, DEADLINE_S)
    zombie.wait_until(lambda: len(zombie.last().partitions) == PARTITIONS, "the assignment")
    if case.point in _IN_A_REBALANCE:
        pipeline.feed(THEN)
        zombie.wait_for_position(PARTITIONS * THEN)
        points.ask(case.point)
        # It is frozen once another member has joined.
        return time.monotonic(), zombie.pid
    pipeline.feed(FIRST)
    zombie.wait_for_records(PARTITIONS * FIRST)
    points.ask(case.point)
    pipeline.feed(THEN)
    return time.monotonic(), points.wait_until_frozen(case.point, DEADLINE_S)


@contextmanager
def _takers(case: Case, pipeline: TestPipeline, points: FreezePoints, *, at: float) -> Generator[TaskThread]:
    """Take over one after the other; the last one runs on inside the block, and drains with it at the latest."""
    *earlier, newest = case.move.takers
    for number, mode in enumerate(earlier, start=1):
        with running(_specification(pipeline, mode, number)) as taker:
            _take(case, points, taker)
            if case.wake is Wake.AFTER:
                _wait_for_the_timeout(case, at)
            taker.drain()
    with running(_specification(pipeline, newest, len(earlier) + 1)) as taker:
        _take(case, points, taker)
        yield taker


def _specification(pipeline: TestPipeline, mode: Mode, number: int) -> Any:
    return pipeline.specification(task=number, **mode.settings)


def _take(case: Case, points: FreezePoints, taker: TaskThread) -> None:
    """Get all partitions once the group has given the zombie up, and do what is to be done, as far as one may."""
    if case.point in _IN_A_REBALANCE:
        points.wait_until_frozen(case.point, DEADLINE_S)
    taker.wait_until(lambda seen: len(seen.partitions) == PARTITIONS, "all partitions", deadline_s=_TAKEN_WITHIN_S)
    # Where offsets are pending it must not get anything, and nothing signals that it will not.
    until = time.monotonic() + _CHANCE_S
    while taker.control.last.counters.records_in < PARTITIONS * THEN and time.monotonic() < until:
        time.sleep(0.05)


def _wait_for_the_timeout(case: Case, frozen_at: float) -> None:
    """Until the coordinator has checked for it, twice."""
    until = frozen_at + _TIMEOUT_MS[case.wake] / 1000 + 2 * _LOOKS_EACH_S
    time.sleep(max(0.0, until - time.monotonic()))


def _told(zombie: TaskProcess, before: int) -> str | None:
    """Its reports since it was woken."""
    events = [report.event for report in zombie.reports()[before:] if report.event is not None]
    errors = [event.error or str(event.kind) for event in events if event.kind in (EventKind.FENCED, EventKind.ABORTED)]
    return errors[-1] if errors else None


def _found(case: Case, pipeline: TestPipeline, told: str | None) -> Found:
    """Uncommitted records are processed by a later task."""
    wanted = len(pipeline.fed)
    with running(pipeline.specification(task=9, **case.move.takers[-1].settings)) as last:
        wait_for(
            lambda: sum(max(0, offset) for offset in _committed(pipeline)) == wanted,
            _TAKEN_WITHIN_S,
            lambda: f"the end of the source, {wanted}; committed are {_committed(pipeline)}",
        )
        last.drain()
    audit = pipeline.audit()
    delete_topics(pipeline.bootstrap_servers, [pipeline.source, pipeline.sink])
    return Found(
        expected=wanted,
        lost=len(audit.lost),
        duplicated=len(audit.duplicated),
        unexpected=len(audit.unexpected),
        out_of_order=len(audit.out_of_order),
        told=told,
    )


def _committed(pipeline: TestPipeline) -> list[int]:
    found = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    return [offset for (topic, _), offset in found.items() if topic == pipeline.source]
