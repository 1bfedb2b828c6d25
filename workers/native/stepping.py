"""Declarative steps by C: their definition for it, and the outcome of a batch.

C decides only what it is sure of. The other records go to the same steps in Python, one by one, and their outputs take
their place among the others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, cast

import msgspec
from confluent_kafka import Message, Producer

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step, StepOperator
from app.core.transforms import field_path
from workers.loop.records.writing import enqueue
from workers.native.batch import Batch, offered
from workers.native.library import NativeLibrary, Slot
from workers.transforms.carrying import UNWRITABLE_TIMESTAMP_MS, TimestampError
from workers.transforms.steps import StepsTransform

_SINK = -1


class Fate(IntEnum):
    """The fate of a record, as stepped.c numbers them. PYTHON: C is not sure. BAD: Python found an error."""

    OUTPUT = 0
    DROPPED = 1
    TOMBSTONE = 2
    PYTHON = 3
    UNTIMED = 4
    BAD = 5


class NativeSteps:
    """The steps of one transform in C's memory. One thread at a time runs them; an outcome lasts until the next run."""

    def __init__(self, library: NativeLibrary, transform: StepsTransform) -> None:
        """Raises ValueError if C does not take them."""
        self.transform = transform
        self.topics = transform.routed
        self._library = library
        self._pointer: Any = None
        definition = definition_of(transform.steps, transform.routed)
        self._pointer = library.calls.fl_steps_new(definition, len(definition), len(self.topics))
        if not self._pointer:
            raise ValueError("the native records do not take these steps")

    def __del__(self) -> None:
        if self._pointer:
            self._library.calls.fl_steps_free(self._pointer)

    @property
    def pointer(self) -> Any:
        return self._pointer

    def run(
        self, batch: Batch, spans: Sequence[tuple[int, int]], messages: Callable[[Sequence[int]], list[Message]]
    ) -> Stepped:
        """Run them over spans of a batch. messages: copies of records by their indexes, counted over the spans."""
        numbers = (ctypes.c_int64 * (2 * len(spans)))(*(number for span in spans for number in span))
        if not self._library.calls.fl_steps_run(self._pointer, batch.live, numbers, len(spans)):
            raise MemoryError("there is no memory for the outputs of the steps")
        return Stepped(self._library, self, batch, messages)

    def outcome(self, value: bytes) -> tuple[Fate, str | None, bytes]:
        """Return what C makes of one value: its fate, the routed topic, and the output's value."""
        if not self._library.calls.fl_steps_try(self._pointer, value, len(value)):
            raise MemoryError("there is no memory for the outputs of the steps")
        slot: Slot = self._pointer.contents.slots[0]
        topic = None if slot.topic == _SINK else self.topics[slot.topic]
        if slot.fate != Fate.OUTPUT:
            return Fate(slot.fate), topic, b""
        return Fate.OUTPUT, topic, ctypes.string_at(self._pointer.contents.text + slot.offset, slot.bytes)


class Stepped:
    """The outcome of one batch: outputs in C's memory, and the errors of the records without them, by index."""

    def __init__(
        self,
        library: NativeLibrary,
        steps: NativeSteps,
        batch: Batch,
        messages: Callable[[Sequence[int]], list[Message]],
    ) -> None:
        self._library = library
        self._steps = steps
        self._batch = batch
        self.failures: dict[int, Exception] = {}
        self._fates = (ctypes.c_int64 * len(Fate))()
        self._outputs = (ctypes.c_int64 * (1 + len(steps.topics)))()
        self._sum()
        undecided = self._with_fate(Fate.PYTHON)
        if undecided:
            self._decide(undecided, messages(undecided))
            self._sum()
        self.failures.update(dict.fromkeys(self._with_fate(Fate.UNTIMED), TimestampError()))

    def __len__(self) -> int:
        return sum(self._outputs)

    @property
    def topics(self) -> set[str]:
        """The routed topics that have outputs."""
        return {topic for topic, count in zip(self._steps.topics, self._outputs[1:], strict=True) if count}

    def refuse(self, problems: Mapping[str, Exception]) -> dict[int, Exception]:
        """Drop the records with an output for one of these topics; return their errors, by index."""
        refused: dict[int, Exception] = {}
        for number, topic in enumerate(self._steps.topics):
            problem = problems.get(topic)
            if problem is None:
                continue
            for index, slot in enumerate(self._slots()):
                if slot.fate == Fate.TOMBSTONE or (slot.fate == Fate.OUTPUT and slot.topic == number):
                    refused[index] = problem
        for index in refused:
            self._put(index, Fate.BAD)
        if refused:
            self._sum()
        return refused

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def write(self, producer: Producer, *, topic: str, keep_partition: bool, room_within_s: float) -> None:
        names = (ctypes.c_char_p * (1 + len(self._steps.topics)))(
            topic.encode(), *(name.encode() for name in self._steps.topics)
        )
        handle, code = self._library.handle(producer), ctypes.c_int32()

        def offer(done: int) -> Any:
            done += self._library.calls.fl_steps_give(
                self._steps.pointer, handle, names, self._batch.live, keep_partition, ctypes.byref(code)
            )
            return offered(done, code.value)

        enqueue(
            producer, len(self), offer, topics=lambda index: self._topic_of(index, topic), room_within_s=room_within_s
        )

    def _slots(self) -> Sequence[Slot]:
        facts = self._steps.pointer.contents
        return cast("Sequence[Slot]", facts.slots[: facts.count])

    def _sum(self) -> None:
        self._size_bytes: int = self._library.calls.fl_steps_sum(self._steps.pointer, self._fates, self._outputs)

    def _with_fate(self, fate: Fate) -> list[int]:
        return [index for index, slot in enumerate(self._slots()) if slot.fate == fate] if self._fates[fate] else []

    def _put(self, index: int, fate: Fate, value: bytes = b"", topic: int = _SINK) -> None:
        if not self._library.calls.fl_steps_decide(self._steps.pointer, index, fate, topic, value, len(value)):
            raise MemoryError("there is no memory for the outputs of the steps")

    def _decide(self, indexes: Sequence[int], messages: list[Message]) -> None:
        """Run the records of these indexes in Python, and put their outputs in their places."""
        processed = self._steps.transform.process(messages)
        for index in indexes:
            self._put(index, Fate.DROPPED)
        for position, error in processed.failures:
            self.failures[indexes[position]] = error
            self._put(indexes[position], Fate.BAD)
        numbers = {topic: number for number, topic in enumerate(self._steps.topics)}
        for position, output in zip(processed.inputs or (), processed.outputs, strict=True):
            fate = Fate.UNTIMED if output.timestamp_ms == UNWRITABLE_TIMESTAMP_MS else Fate.OUTPUT
            self._put(indexes[position], fate, output.value or b"", numbers.get(output.topic or "", _SINK))

    def _topic_of(self, index: int, sink: str) -> str:
        """The topic of the output with this number."""
        topics = [sink, *self._steps.topics]
        for slot in self._slots():
            if slot.fate == Fate.OUTPUT:
                if index == 0:
                    return topics[1 + slot.topic]
                index -= 1
            elif slot.fate == Fate.TOMBSTONE:
                if index < len(topics):
                    return topics[index]
                index -= len(topics)
        return sink


def definition_of(steps: Sequence[Step], topics: Sequence[str]) -> bytes:
    """Return the steps as steps.c reads them. topics: the routed ones, whose numbers the routes get."""
    return msgspec.json.encode([_as_given(step, topics) for step in steps])


def _as_given(step: Step, topics: Sequence[str]) -> dict[str, Any]:
    match step:
        case Filter():
            return {"kind": "filter", **_comparison(step)}
        case Route():
            number = topics.index(step.topic) if step.topic in topics else _SINK
            return {"kind": "route", "topic": number, **_comparison(step)}
        case Project():
            return {"kind": "project", "fields": [field_path.parse(field) for field in step.fields]}
        case Rename():
            return {"kind": "rename", "from": field_path.parse(step.field), "to": field_path.parse(step.to)}
        case SetField():
            return {"kind": "set", "to": field_path.parse(step.field), "value": step.value}
        case Condition():
            return {"kind": "python"}


def _comparison(step: Filter | Route) -> dict[str, Any]:
    match step.operator:
        case StepOperator.EXISTS | StepOperator.MISSING:
            constants: list[Any] = []
        case StepOperator.IN:
            constants = list(step.value)
        case _:
            constants = [step.value]
    return {"operator": step.operator, "from": field_path.parse(step.field), "constants": constants}
