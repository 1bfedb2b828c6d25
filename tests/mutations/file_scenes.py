"""The six faults of a debugging story (docs/measured/mutations.md), as scenes of file pipelines.

They are played like the others, and judged by what committed references name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer

from app.core.pipelines.pipeline import FileSink as Settings
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from tests.fault_suite.freeze_points import FilePoint
from tests.mutations.scenes import (
    FIRST,
    REBALANCED_WITHIN_S,
    THEN,
    Place,
    committed,
    end_of,
    faulty,
    held_back_until,
    points_of,
    process_of,
)
from tests.mutations.seams import Method, switched_off
from tests.support.file_pipelines import FileAudit, audit_files, file_sink, json_value
from tests.support.lakes import Folder
from tests.support.pipelines import TestPipeline
from tests.support.tasks import DEADLINE_S, running
from tests.support.topics import delete_topics
from tests.support.waiting import wait_for
from workers.loop.client_config import consumer_config
from workers.sinks.file_sink import FileSinkWriter

_NEVER_MS = 600_000
_UPLOADS_WITHIN_MS = 2_000
"""Shorter than a session: who is frozen past that has no time left to refer to what it uploads."""
_CHANCE_S = 5.0


def partition_comes_straight_back(place: Place) -> FileAudit:
    """A partition with unfiled records is revoked and returned at once; its owner in between processed nothing."""
    pipeline = _pipeline(place, partitions=2)
    pipeline.feed(THEN)
    with switched_off(place.off), running(_held_open(pipeline)) as first:
        first.wait_for_position(2 * end_of(pipeline))
        with _guest(pipeline):
            first.wait_for_partitions(1)
        first.wait_for_partitions(2)
        # Behind what it had: this is committed in any case.
        pipeline.feed(FIRST)
        first.wait_for_position(2 * end_of(pipeline))
        first.drain()
    return _to_the_end(place, pipeline)


def fails_in_the_middle_of_a_batch(place: Place) -> FileAudit:
    """A task fails with half of a batch in files, and its client releases the partitions with the checkpoint open."""
    pipeline = _pipeline(place, partitions=2)
    pipeline.feed(THEN)
    with switched_off(place.off), _fails_at(THEN), running(_held_open(pipeline)) as task:
        error = task.join_error()
        assert isinstance(error, _FailedError), error
    return _to_the_end(place, pipeline)


def records_come_before_the_producer(place: Place) -> FileAudit:
    """A partition with records is assigned; its producer is ready late."""
    pipeline = _pipeline(place, partitions=1, processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)
    pipeline.feed(THEN)
    may_init = threading.Event()
    with (
        switched_off(place.off),
        faulty("init", held_back_until(may_init)),
        running(pipeline.specification()) as task,
    ):
        task.wait_for_event(EventKind.ASSIGNED, deadline_s=REBALANCED_WITHIN_S)
        _give_a_chance(lambda: [p.position for p in task.control.last.partitions] == [end_of(pipeline)])
        may_init.set()
        pipeline.feed(FIRST)
        wait_for(lambda: committed(pipeline) == [end_of(pipeline)], DEADLINE_S, "what was fed at last, committed")
        task.drain()
    return _to_the_end(place, pipeline)


def records_of_before_a_rebalance(place: Place) -> FileAudit:
    """Records wait for their file while their partition is revoked, filed elsewhere, and returned."""
    pipeline = _pipeline(place, partitions=2)
    pipeline.feed(THEN)
    with switched_off(place.off), running(_held_open(pipeline)) as first:
        first.wait_for_position(2 * end_of(pipeline))
        assigned = first.control.kinds().count(EventKind.ASSIGNED)
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(1)
            # By either: one of them in its callback, or the other one.
            wait_for(lambda: end_of(pipeline) in committed(pipeline), DEADLINE_S, "what was taken, committed")
            second.drain()
        # Not by its owned partitions: it may not have learned of the revocation.
        first.wait_for_event(EventKind.ASSIGNED, times=assigned + 1, deadline_s=REBALANCED_WITHIN_S)
        first.drain()
    return _to_the_end(place, pipeline)


def assigned_polls_after_it_was_revoked(place: Place) -> FileAudit:
    """A partition is revoked in one poll and assigned in another; between them another member commits."""
    return records_of_before_a_rebalance(place)


def frozen_while_it_uploads(place: Place) -> FileAudit:
    """A member is frozen past its session in an upload; another one files the same records before the upload ends."""
    pipeline = _pipeline(place, partitions=1, session_timeout_ms=3_000, transaction_timeout_ms=60_000)
    points = points_of(place)
    files = _held_files(pipeline, upload_timeout_ms=_UPLOADS_WITHIN_MS)
    with process_of(place, pipeline, points, files=files) as zombie:
        zombie.wait_until(lambda: len(zombie.last().partitions) == 1, "the assignment")
        pipeline.feed(THEN)
        zombie.wait_for_position(end_of(pipeline))
        points.ask(FilePoint.WHILE_UPLOADING)
        zombie.ask_to_drain()
        pid = points.wait_until_frozen(FilePoint.WHILE_UPLOADING, DEADLINE_S)
        with switched_off(place.off), running(pipeline.specification(task=1)) as taker:
            taker.wait_until(
                lambda seen: seen.counters.records_in >= THEN, "what it took over", deadline_s=REBALANCED_WITHIN_S
            )
            points.thaw(pid)
            zombie.join()
            taker.drain()
    return _to_the_end(place, pipeline)


class _FailedError(Exception):
    """For no reason that the loop knows."""


@contextmanager
def _fails_at(record: int) -> Generator[None]:
    """No more than so many records get into files."""
    add: Method = FileSinkWriter.add
    calls = count(1)

    @wraps(add)
    def fails(*arguments: Any, **named: Any) -> None:
        if next(calls) > record:
            raise _FailedError
        add(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileSinkWriter, "add", fails)
        # Else C files most records without it.
        patch.setattr(FileSinkWriter, "takes_held", False)
        yield


@contextmanager
def _guest(pipeline: TestPipeline) -> Generator[None]:
    """A member of the group that takes its share of the partitions, and nothing out of them."""
    consumer = Consumer(consumer_config(pipeline.specification(task=1)))
    try:
        consumer.subscribe([pipeline.source])

        def has_one() -> bool:
            consumer.consume(1, 0.05)
            return bool(consumer.assignment())

        wait_for(has_one, REBALANCED_WITHIN_S, "a partition for the guest")
        yield
    finally:
        consumer.close()


def _pipeline(place: Place, *, partitions: int, **settings: Any) -> TestPipeline:
    files = file_sink(_lake(place), rotate_ms=200)
    return place.pipeline(partitions=partitions, value_of=json_value, files=files, **settings)


def _lake(place: Place) -> Folder:
    return Folder(Path(place.folder) / "lake")


def _held_open(pipeline: TestPipeline) -> Any:
    """A task whose checkpoints end with a rebalance or a drain alone."""
    return pipeline.specification(files=_held_files(pipeline))


def _held_files(pipeline: TestPipeline, **changes: Any) -> Settings:
    assert pipeline.definition.files is not None
    return msgspec.structs.replace(pipeline.definition.files, rotate_ms=_NEVER_MS, **changes)


def _give_a_chance(condition: Callable[[], bool]) -> None:
    """Wait for a forbidden act; nothing signals that it will not come."""
    until = time.monotonic() + _CHANCE_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def _to_the_end(place: Place, pipeline: TestPipeline) -> FileAudit:
    """Uncommitted records are processed by a later task, with nothing switched off."""
    with running(pipeline.specification(attempt=1)) as last:
        wait_for(
            lambda: committed(pipeline) == [end_of(pipeline)] * pipeline.partitions,
            REBALANCED_WITHIN_S,
            lambda: f"the end of the source, {end_of(pipeline)}; committed are {committed(pipeline)}",
        )
        last.drain()
    audit = audit_files(pipeline, _lake(place))
    assert not audit.dangling, str(audit)
    delete_topics(pipeline.bootstrap_servers, [pipeline.source, pipeline.sink])
    return audit
