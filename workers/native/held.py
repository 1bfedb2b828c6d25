"""Records that C holds, and what the loop asks of them."""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import cast

from confluent_kafka import Message, Producer

from app.core.clusters.partition import Partition
from workers.loop.errors import LoopError
from workers.loop.records.polled import Records
from workers.loop.records.writing import UnfitError, enqueue
from workers.native.arrow import ArrowRows
from workers.native.batch import Batch, Run, offered
from workers.native.filing import HeldOutputs
from workers.native.library import NativeLibrary, RecordFacts
from workers.native.stepping import NativeSteps, Stepped
from workers.transforms import Transform
from workers.transforms.arrow_function import ArrowTransform
from workers.transforms.carrying import TimestampError
from workers.transforms.headers import UNREADABLE_NAME, HeaderNameError, Headers
from workers.transforms.steps import StepsTransform

_NULL = -1
_FEW = 8
"""One in so many records is copied alone; else all are copied at once."""
StepsOf = Callable[[StepsTransform], "NativeSteps | None"]
_LENGTHS = 16


class HeldRecords:
    """Records of one take or a part of them. Index i is the i-th record of its runs."""

    def __init__(self, library: NativeLibrary, batch: Batch, runs: Sequence[Run], steps_of: StepsOf) -> None:
        self._library = library
        self._batch = batch
        self._runs = runs
        self._steps_of = steps_of
        self._count = sum(run.end - run.begin for run in runs)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int, /) -> Message:
        wanted = index if index >= 0 else self._count + index
        for run in self._runs:
            if 0 <= wanted < run.end - run.begin:
                return cast(Message, self._copied(run, run.begin + wanted, run.begin + wanted + 1)[0])
            wanted -= run.end - run.begin
        raise IndexError(f"record {index} of {self._count}")

    @property
    def size_bytes(self) -> int:
        return sum(run.size_bytes for run in self._runs)

    @property
    def span(self) -> tuple[int, int]:
        return self._runs[0].first_offset, self._runs[-1].last_offset

    def first_offsets(self) -> dict[Partition, int]:
        starts: dict[Partition, int] = {}
        for run in self._runs:
            starts.setdefault(run.partition, run.first_offset)
        return starts

    def by_partition(self) -> dict[Partition, Records]:
        found: dict[Partition, list[Run]] = {}
        for run in self._runs:
            found.setdefault(run.partition, []).append(run)
        return {partition: self._part(runs) for partition, runs in found.items()}

    def without(self, partitions: Collection[Partition]) -> Records:
        return self._part([run for run in self._runs if run.partition not in partitions])

    def without_those(self, indexes: Collection[int]) -> Records:
        kept: list[Run] = []
        cuts = sorted(set(indexes))
        first = 0
        for run in self._runs:
            count = run.end - run.begin
            here = [index - first for index in cuts[bisect_left(cuts, first) : bisect_left(cuts, first + count)]]
            for before, after in pairwise([-1, *here, count]):
                if after > before + 1:
                    kept.append(self._cut(run, run.begin + before + 1, run.begin + after))
            first += count
        return self._part(kept)

    def messages(self) -> tuple[list[Message], Mapping[int, HeaderNameError]]:
        found = [message for run in self._runs for message in self._copied(run, run.begin, run.end)]
        unreadable = {index: one.unreadable for index, one in enumerate(found) if one.unreadable is not None}
        return cast("list[Message]", found), unreadable

    def write(self, producer: Producer, *, topic: str, keep_partition: bool, room_within_s: float) -> None:
        untimed = self._untimed()
        if untimed:
            raise UnfitError(dict.fromkeys(untimed, TimestampError()))
        spans = _joined(self._runs)
        handle, name, code = self._library.handle(producer), topic.encode(), ctypes.c_int32()

        def offer(done: int) -> tuple[int, LoopError | None]:
            """Enqueue from the record `done` on; return how many are enqueued now, and the reason why not all."""
            skipped = done
            for begin, end in spans:
                if skipped >= end - begin:
                    skipped -= end - begin
                    continue
                given = self._library.calls.fl_give(
                    handle, name, self._batch.live, begin + skipped, end, keep_partition, ctypes.byref(code)
                )
                done += given
                if begin + skipped + given < end:
                    return offered(done, code.value)
                skipped = 0
            return done, None

        enqueue(producer, len(self), offer, topics=lambda _: topic, room_within_s=room_within_s)

    def stepped(self, transform: Transform) -> Stepped | ArrowRows | None:
        if isinstance(transform, ArrowTransform):
            return ArrowRows.of(self._library, self._batch, self._runs, transform)
        steps = self._steps_of(transform) if isinstance(transform, StepsTransform) else None
        return None if steps is None else steps.run(self._batch, _joined(self._runs), self._few)

    def outputs(self, transform: Transform) -> HeldOutputs | None:
        if transform.is_identity:
            return HeldOutputs(self._batch, self._runs, steps=None, stepped=None, copies=self._few)
        steps = self._steps_of(transform) if isinstance(transform, StepsTransform) else None
        if steps is None:
            return None
        stepped = steps.run(self._batch, _joined(self._runs), self._few)
        return HeldOutputs(self._batch, self._runs, steps=steps, stepped=stepped, copies=self._few)

    def _few(self, indexes: Sequence[int]) -> list[Message]:
        """Copies of the records with these indexes."""
        if len(indexes) * _FEW > len(self):
            messages, _ = self.messages()
            return [messages[index] for index in indexes]
        return [self[index] for index in indexes]

    def _part(self, runs: Sequence[Run]) -> HeldRecords:
        return HeldRecords(self._library, self._batch, runs, self._steps_of)

    def _untimed(self) -> list[int]:
        """The indexes of records with timestamp 0."""
        found: list[int] = []
        first = 0
        for run in self._runs:
            if run.untimed:
                numbers = (ctypes.c_int64 * (run.end - run.begin))()
                count = self._library.calls.fl_untimed(self._batch.live, run.begin, run.end, numbers)
                found += [first + number - run.begin for number in numbers[:count]]
            first += run.end - run.begin
        return found

    def _cut(self, run: Run, begin: int, end: int) -> Run:
        """A part of a run, counted again."""
        if (begin, end) == (run.begin, run.end):
            return run
        facts, _ = self._facts(begin, end)
        return run._replace(
            begin=begin,
            end=end,
            first_offset=facts[0].offset,
            last_offset=facts[-1].offset,
            size_bytes=sum(max(0, fact.value_bytes) for fact in facts),
            untimed=sum(fact.timestamp_ms == 0 for fact in facts),
        )

    def _facts(self, begin: int, end: int) -> tuple[Sequence[RecordFacts], int]:
        """The facts of records, and the bytes of their texts."""
        facts = (RecordFacts * (end - begin))()
        size = self._library.calls.fl_copy(self._batch.live, begin, end, facts, None, 0)
        return cast("Sequence[RecordFacts]", facts), size

    def _copied(self, run: Run, begin: int, end: int) -> list[CopiedRecord]:
        facts, room = self._facts(begin, end)
        text = ctypes.create_string_buffer(max(1, room))
        self._library.calls.fl_copy(self._batch.live, begin, end, facts, text, room)
        return list(_parsed(run.partition, facts, text.raw))


class CopiedRecord:
    """A record with the methods of confluent-kafka's Message that the loop and transforms call."""

    __slots__ = ("_headers", "_key", "_offset", "_partition", "_timestamp", "_value", "unreadable")

    def __init__(
        self,
        partition: Partition,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: tuple[int, int],
        headers: Headers,
        unreadable: HeaderNameError | None,
    ) -> None:
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._timestamp = timestamp
        self._headers = headers
        self.unreadable = unreadable

    def topic(self) -> str:
        return self._partition.topic

    def partition(self) -> int:
        return self._partition.partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def headers(self) -> Headers:
        return self._headers

    def error(self) -> None:
        return None

    def __len__(self) -> int:
        return len(self._value or b"")


def _joined(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """The runs as spans of the batch, those that follow each other as one."""
    spans: list[tuple[int, int]] = []
    for run in runs:
        if spans and spans[-1][1] == run.begin:
            spans[-1] = (spans[-1][0], run.end)
        else:
            spans.append((run.begin, run.end))
    return spans


def _parsed(partition: Partition, facts: Iterable[RecordFacts], text: bytes) -> Iterable[CopiedRecord]:
    """Read what `fl_copy` wrote."""
    at = 0

    def take(size: int) -> bytes | None:
        nonlocal at
        if size == _NULL:
            return None
        begin, at = at, at + size
        return text[begin:at]

    for fact in facts:
        key, value = take(fact.key_bytes), take(fact.value_bytes)
        headers: list[tuple[str, bytes | None]] = []
        nameless: list[int] = []
        for number in range(max(0, fact.headers)):
            name_bytes, value_bytes = memoryview(text[at : at + _LENGTHS]).cast("q")
            at += _LENGTHS
            name, content = take(name_bytes) or b"", take(value_bytes)
            try:
                headers.append((name.decode(), content))
            except UnicodeDecodeError:
                nameless.append(number)
                headers.append((f"{UNREADABLE_NAME}{number}", content))
        yield CopiedRecord(
            partition,
            fact.offset,
            key,
            value,
            (fact.timestamp_type, fact.timestamp_ms),
            None if fact.headers == _NULL else headers,
            HeaderNameError.of(nameless) if nameless else None,
        )
