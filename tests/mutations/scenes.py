"""Scenes in which one protection of the loop alone prevents a lost or duplicated record.

Each is played to its end with any switch, and leaves the pipeline drained; the verifier judges the records. Nothing in
them asks whether a protection is switched off.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from confluent_kafka import KafkaException, Producer

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from tests.fault_suite.freeze_points import FreezePoints, Point
from tests.mutations.seams import Method, switched_off
from tests.mutations.switches import Switch, environment_of
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.tasks import DEADLINE_S, TaskProcess, TaskThread, running
from tests.support.topics import delete_topics
from tests.support.verifier import Audit
from tests.support.waiting import wait_for
from workers.loop.errors import AbortableError, OutcomeUnknownError, RetriableError
from workers.loop.producing.transactional_producer import TransactionalProducer

HELD_OPEN: dict[str, Any] = {"commit_interval_ms": 60_000, "transaction_timeout_ms": 90_000}
REBALANCED_WITHIN_S = 40.0
_CHANCE_S = 5.0
_ASKS_WITHIN_S = 1.0
LOOKS_S = 0.2
FIRST = 10
THEN = 200


class Place(NamedTuple):
    """Where a scene is played. folder: for what its processes write."""

    bootstrap_servers: str
    folder: Path
    protocol: GroupProtocol
    off: tuple[Switch, ...]

    def pipeline(self, *, partitions: int, **settings: Any) -> TestPipeline:
        """One whose partitions have committed offsets: what follows begins in the middle, as it does in life."""
        pipeline = TestPipeline.create(
            self.bootstrap_servers, partitions=partitions, group_protocol=self.protocol, **settings
        )
        pipeline.feed(FIRST)
        with running(pipeline.specification()) as task:
            task.wait_for_records(FIRST * partitions)
            task.drain()
        return pipeline


class Judged(Protocol):
    """The content of the sink, or of the files that it names, in the end; ids each."""

    @property
    def expected(self) -> int: ...
    @property
    def lost(self) -> tuple[str, ...]: ...
    @property
    def duplicated(self) -> tuple[str, ...]: ...
    @property
    def unexpected(self) -> tuple[str, ...]: ...


Scene = Callable[[Place], Judged]
"""Played with the switches of the place off; says what came out in the end."""


def partition_goes_and_comes_back(place: Place) -> Audit:
    """One of two partitions of an open checkpoint is revoked, processed elsewhere, and returned."""
    pipeline = place.pipeline(partitions=2)
    pipeline.feed(THEN)
    with switched_off(place.off), running(pipeline.specification(**HELD_OPEN)) as first:
        first.wait_for_position(2 * (FIRST + THEN))
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(1)
            first.wait_for_partitions(1)
            # By either: one of them in its callback, or the other one.
            wait_for(lambda: end_of(pipeline) in committed(pipeline), DEADLINE_S, "what was taken, committed")
            second.drain()
        first.wait_for_partitions(2)
        first.drain()
    return _to_the_end(pipeline)


def member_is_lost(place: Place) -> Audit:
    """A member is frozen past its session with an open checkpoint, and is a member again at its commit."""
    pipeline = place.pipeline(partitions=1, session_timeout_ms=3_000)
    with process_of(place, pipeline, points_of(place)) as zombie:
        zombie.wait_until(lambda: len(zombie.last().partitions) == 1, "the assignment")
        pipeline.feed(THEN)
        zombie.wait_for_position(end_of(pipeline))
        zombie.freeze()
        with running(pipeline.specification(task=1)) as taker:
            _wait_until_processed(taker)
            zombie.thaw()
            # Not before: the group refuses a member that has not learned yet that it continues with both.
            wait_for(
                lambda: zombie.last().generation == taker.control.last.generation,
                REBALANCED_WITHIN_S,
                lambda: f"both in one generation: {zombie.last().generation}, {taker.control.last.generation}",
            )
            zombie.drain()
            taker.drain()
    return _to_the_end(pipeline)


def frozen_between_poll_and_offsets(place: Place) -> Audit:
    """Frozen after its outputs; thawed when another member has committed the same records, before its next poll."""
    return _frozen_at(Point.AFTER_OUTPUTS, place, _wait_until_processed)


def frozen_between_offsets_and_commit(place: Place) -> Audit:
    """Frozen with pending offsets; thawed when another member has had the partition for a while."""
    return _frozen_at(Point.AFTER_OFFSETS, place, _give_a_chance)


def every_third_checkpoint_fails(place: Place) -> Audit:
    """Four waves of records; each third time offsets are refused, without other members."""
    pipeline = place.pipeline(partitions=2)
    with (
        switched_off(place.off),
        faulty("send_offsets", refused_every_third_time),
        running(pipeline.specification(commit_interval_ms=20)) as task,
    ):
        task.wait_for_partitions(2)
        for _ in range(4):
            pipeline.feed(2_000)
            task.wait_until(lambda seen: all(p.position == end_of(pipeline) for p in seen.partitions), "the wave read")
        task.wait_until(lambda seen: seen.counters.transactions_aborted > 0, "an abort")
        task.drain()
    return _to_the_end(pipeline)


def commit_arrives_late(place: Place) -> Audit:
    """A commit request is not answered in time, and arrives before the next one."""
    pipeline = place.pipeline(partitions=1, transaction_timeout_ms=5_000)
    with switched_off(place.off), running(pipeline.specification()) as task:
        # Its first transaction has no outputs: it commits where it begins.
        pipeline.feed(FIRST)
        task.wait_for_records(FIRST)
        with faulty("commit", late_once):
            pipeline.feed(THEN)
            wait_for(
                lambda: not task.is_running or task.control.last.counters.records_in >= FIRST + THEN,
                DEADLINE_S,
                lambda: f"the records, or the attempt's end; {task.control.last}",
            )
    return _to_the_end(pipeline)


def former_owner_wakes_before_the_init(place: Place) -> Audit:
    """Frozen after its outputs; thawed when another member has the partition, during that member's init."""
    pipeline = place.pipeline(
        partitions=1,
        processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE,
        session_timeout_ms=3_000,
        transaction_timeout_ms=60_000,
    )
    points, may_init = points_of(place), threading.Event()
    with process_of(place, pipeline, points, commit_interval_ms=100) as zombie:
        pid = _freeze(Point.AFTER_OUTPUTS, points, zombie, pipeline)
        with (
            switched_off(place.off),
            faulty("init", held_back_until(may_init)),
            running(pipeline.specification(task=1)) as taker,
        ):
            taker.wait_for_event(EventKind.ASSIGNED, deadline_s=REBALANCED_WITHIN_S)
            # To request its committed offset, without a signal that it has.
            time.sleep(_ASKS_WITHIN_S)
            points.thaw(pid)
            zombie.drain()
            may_init.set()
            pipeline.feed(FIRST)
            wait_for(lambda: committed(pipeline) == [end_of(pipeline)], DEADLINE_S, "what was fed at last, committed")
            taker.drain()
    return _to_the_end(pipeline)


def held_back_until(may_init: threading.Event) -> Callable[[Method], Method]:
    """Until then no init is answered."""

    def held_back(init: Method) -> Method:
        @wraps(init)
        def later(self: TransactionalProducer, timeout_s: float) -> None:
            if not may_init.wait(min(timeout_s, LOOKS_S)):
                raise RetriableError("no answer yet, for the test")
            init(self, timeout_s)

        return later

    return held_back


def refused_every_third_time(method: Method) -> Method:
    """Each third call raises an abortable error instead."""
    calls = count(1)

    @wraps(method)
    def sometimes(*arguments: Any, **named: Any) -> None:
        if next(calls) % 3 == 0:
            raise AbortableError("refused for the test")
        method(*arguments, **named)

    return sometimes


def late_once(commit: Method) -> Method:
    """The first request of all is sent when the next commit is made: by then its answer is not waited for any more."""
    late: list[Producer] = []

    @wraps(commit)
    def later(self: TransactionalProducer, **named: Any) -> None:
        if not late:
            late.append(self.live)
            raise OutcomeUnknownError("no answer in time, for the test")
        if late[0] is not self.live:
            # The record of a producer that was discarded: its successor has the next epoch.
            with suppress(KafkaException):
                late[0].commit_transaction(DEADLINE_S)
        commit(self, **named)

    return later


@contextmanager
def faulty(name: str, made: Callable[[Method], Method]) -> Generator[None]:
    before = getattr(TransactionalProducer, name)
    setattr(TransactionalProducer, name, made(before))
    try:
        yield
    finally:
        setattr(TransactionalProducer, name, before)


def _frozen_at(point: Point, place: Place, until: Callable[[TaskThread], None]) -> Audit:
    """One is frozen there with all of its threads, another one gets the partition."""
    pipeline = place.pipeline(partitions=1, session_timeout_ms=3_000, transaction_timeout_ms=60_000)
    points = points_of(place)
    with process_of(place, pipeline, points, commit_interval_ms=100) as zombie:
        pid = _freeze(point, points, zombie, pipeline)
        with switched_off(place.off), running(pipeline.specification(task=1)) as taker:
            taker.wait_until(lambda seen: len(seen.partitions) == 1, "the partition", deadline_s=REBALANCED_WITHIN_S)
            until(taker)
            points.thaw(pid)
            zombie.drain()
            taker.drain()
    return _to_the_end(pipeline)


def _freeze(point: Point, points: FreezePoints, zombie: TaskProcess, pipeline: TestPipeline) -> int:
    """Its pid. Its first transaction has no outputs: it commits where it begins."""
    pipeline.feed(FIRST)
    zombie.wait_for_records(FIRST)
    points.ask(point)
    pipeline.feed(THEN)
    return points.wait_until_frozen(point, DEADLINE_S)


def points_of(place: Place) -> FreezePoints:
    return FreezePoints(place.folder / "freeze")


@contextmanager
def process_of(place: Place, pipeline: TestPipeline, points: FreezePoints, **settings: Any) -> Generator[TaskProcess]:
    """Changed from outside in both ways: where it stops, and what it does without."""
    process = TaskProcess(
        pipeline.specification(**{**HELD_OPEN, **settings}),
        place.folder / "process",
        environment=points.environment_of({**os.environ, **environment_of(place.off)}),
    )
    try:
        yield process
    finally:
        process.close()


def _wait_until_processed(taker: TaskThread) -> None:
    taker.wait_until(lambda seen: seen.counters.records_in >= THEN, "what it took over", deadline_s=REBALANCED_WITHIN_S)


def _give_a_chance(taker: TaskThread) -> None:
    """Wait for a forbidden act; nothing signals that it will not come."""
    until = time.monotonic() + _CHANCE_S
    while taker.control.last.counters.records_in < THEN and time.monotonic() < until:
        time.sleep(0.05)


def end_of(pipeline: TestPipeline) -> int:
    """The ends of each partition of the source."""
    return len(pipeline.fed) // pipeline.partitions


def committed(pipeline: TestPipeline) -> list[int]:
    found = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    return [offset for (topic, _), offset in found.items() if topic == pipeline.source]


def _to_the_end(pipeline: TestPipeline) -> Audit:
    """Uncommitted records are processed by a later task, with nothing switched off."""
    with running(pipeline.specification(attempt=1)) as last:
        wait_for(
            lambda: committed(pipeline) == [end_of(pipeline)] * pipeline.partitions,
            REBALANCED_WITHIN_S,
            lambda: f"the end of the source, {end_of(pipeline)}; committed are {committed(pipeline)}",
        )
        last.drain()
    audit = pipeline.audit()
    delete_topics(pipeline.bootstrap_servers, [pipeline.source, pipeline.sink])
    return audit
