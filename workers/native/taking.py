"""The records of a consumer by a queue of our own, to which its partitions are forwarded.

The group's own queue cannot be read from C: rebalance callbacks run on it, and confluent-kafka expects them inside its
own calls. So it is polled for callbacks and errors alone, and the records come from this queue, on which no callback
runs. Errors of a partition come with its records.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable

from confluent_kafka import Consumer

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import (
    Condition,
    Identity,
    PipelineDefinition,
    ProcessingGuarantee,
    PythonFunction,
    PythonScope,
    Steps,
)
from workers.loop.errors import FatalError
from workers.loop.records.polled import MessageSource, PolledError, PolledMessages, Records, RecordSource, sorted_out
from workers.native.batch import Batch
from workers.native.held import HeldRecords
from workers.native.library import NativeLibrary, native_library
from workers.native.stepping import NativeSteps
from workers.transforms.steps import StepsTransform

_MOST_EVENTS = 100
_SLICE_S = 0.05
"""The longest wait for records in which callbacks do not run."""
_FORWARD_AGAIN_S = 0.05


class NativeSource:
    """Records of a consumer's partitions, held by C."""

    name = "native"

    def __init__(self, consumer: Consumer, library: NativeLibrary) -> None:
        self._consumer = consumer
        self._library = library
        self._queue: int | None = None
        self._numbers: dict[Partition, int] = {}
        self._forwarded_at = 0.0
        self._batches: weakref.WeakSet[Batch] = weakref.WeakSet()
        self._steps: NativeSteps | None = None
        self._is_closed = False

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Before the client assigns them: else its own queue would get their first records."""
        calls = self._library.calls
        if self._is_closed:
            return
        if self._queue is None:
            self._queue = calls.fl_source_new(self._library.handle(self._consumer))
            if self._queue is None:
                raise FatalError("C cannot make a queue for this client: no memory, or another layout")
        self.given_up(partitions)
        for partition in partitions:
            number = calls.fl_source_add(self._queue, partition.topic.encode(), partition.partition)
            if number < 0:
                raise FatalError(f"the records of {partition} cannot be forwarded")
            self._numbers[partition] = number

    def given_up(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            number = self._numbers.pop(partition, None)
            if number is not None:
                self._library.calls.fl_source_remove(self._queue, number)

    def poll(self, count: int, timeout_s: float) -> tuple[Records, list[PolledError]]:
        """Up to `count` records, and errors. Callbacks run in here, before records are taken."""
        deadline = time.monotonic() + timeout_s
        while True:
            stray, errors = sorted_out(self._consumer.consume(_MOST_EVENTS, 0))
            if stray:
                # Nothing is lost: they are not committed.
                raise FatalError(f"the client handed out {len(stray)} records beside the queue")
            left_s = deadline - time.monotonic()
            if self._queue is None:
                if errors or left_s <= 0:
                    return PolledMessages(), errors
                time.sleep(min(_SLICE_S, left_s))
                continue
            records, more = self._take(count, 0.0 if errors else max(0.0, min(_SLICE_S, left_s)))
            if records or more or errors or left_s <= _SLICE_S:
                return records, errors + more

    def _take(self, count: int, timeout_s: float) -> tuple[Records, list[PolledError]]:
        calls, now = self._library.calls, time.monotonic()
        if now - self._forwarded_at >= _FORWARD_AGAIN_S:
            self._forwarded_at = now
            calls.fl_source_forward(self._queue)
        pointer = calls.fl_take(self._queue, count, int(1000 * timeout_s))
        if not pointer:
            raise MemoryError("there is no memory for polled records")
        batch = Batch(self._library, pointer)
        facts = pointer.contents
        errors = batch.errors() if facts.trouble_count else []
        if not facts.count:
            batch.free()
            return PolledMessages(), errors
        self._batches.add(batch)
        return HeldRecords(self._library, batch, batch.runs(), self._steps_of), errors

    def _steps_of(self, transform: StepsTransform) -> NativeSteps:
        if self._steps is None or self._steps.transform is not transform:
            self._steps = NativeSteps(self._library, transform)
        return self._steps

    def close(self) -> None:
        """Release everything. The client does not close while anything of it is left."""
        self._is_closed = True
        for batch in list(self._batches):
            batch.free()
        queue, self._queue = self._queue, None
        self._numbers.clear()
        if queue is not None:
            self._library.calls.fl_source_free(queue)


def source_for(consumer: Consumer, definition: PipelineDefinition, *, may_be_native: bool) -> RecordSource:
    """Return the records of a task's consumer, by C where that is possible and faster."""
    why, library = why_objects(definition, may_be_native=may_be_native), native_library()
    if why is None and isinstance(library, NativeLibrary) and library.fits(consumer):
        return NativeSource(consumer, library)
    return MessageSource(consumer, why=why or "the client is laid out differently")


def why_objects(definition: PipelineDefinition, *, may_be_native: bool) -> str | None:
    """Return the reason why this pipeline's records become Python objects; None: C holds them."""
    if not may_be_native:
        return "`native_records` is off"
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return "`at_least_once` needs a report for each record"
    if definition.files is not None and definition.files.verifies:
        return "its files are compared with the ids of its records"
    match definition.transform:
        case Identity():
            pass
        case Steps():
            if isinstance(next(iter(definition.transform.steps), None), Condition):
                return "its first step is a condition"
        case PythonFunction(scope=PythonScope.ARROW):
            if definition.files is not None:
                return "the rows of its function go into files"
        case _:
            return "its function takes Python objects"
    library = native_library()
    return library if isinstance(library, str) else None
