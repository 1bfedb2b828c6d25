"""The parts of a file sink in C's memory, and records that go into them without Python objects.

C files a record whose part is there, and whose value leaves the schema of that part as it is (filing.c). It stops at
any other record, and Python files that one. So each file has its records in their order.
"""

from __future__ import annotations

import ctypes
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

import msgspec
from confluent_kafka import Message

from app.core.avro_schemas.shape import Shape
from app.core.pipelines.pipeline import ByDate, ByField, FileSink
from app.core.transforms import field_path
from workers.native.avro import NativeAvro
from workers.native.batch import Batch, Run
from workers.native.library import FilingFacts, NativeLibrary, PartFacts, RangeFacts
from workers.native.stepping import NativeSteps, Stepped
from workers.sinks.frames import framed
from workers.sinks.parts import Buffers, Part, Parts, Source
from workers.sinks.spool import Spool
from workers.transforms.carrying import TimestampError
from workers.transforms.headers import HeaderNameError

_TRIES: Final = 64
"""After so many records of a batch that C left to Python, C is only asked while it files more than it leaves."""


class Stop(IntEnum):
    """Why C stopped, as filing.c numbers it."""

    DONE = 0
    FOR_PYTHON = 1
    NEW_PART = 2
    PART_FULL = 3
    MEMORY_FULL = 4
    FAILED = 5


class LeftRecord(NamedTuple):
    """The record with this index is Python's to file, before any further one."""

    position: int


class FullPart(NamedTuple):
    """The part of these values is as large as a file may be."""

    values: tuple[str, ...]


class HeldOutputs:
    """The records of a poll that C holds, or what its steps made of them, on their way into files.

    failures: the errors of the steps, by index.
    """

    def __init__(
        self,
        batch: Batch,
        runs: Sequence[Run],
        *,
        steps: NativeSteps | None,
        stepped: Stepped | None,
        copies: Callable[[Sequence[int]], list[Message]],
    ) -> None:
        """copies: of the records with these indexes."""
        self.batch = batch
        self.steps = steps
        # The time of an output is beside its file, so that 1970 is one like any other.
        found = {} if stepped is None else stepped.failures
        self.failures: Mapping[int, Exception] = {
            index: error for index, error in found.items() if not isinstance(error, TimestampError)
        }
        self._runs = runs
        self._copies = copies
        self._count = sum(run.end - run.begin for run in runs)
        self._single = self._count // 8
        self._all: list[Message] | None = None

    def runs(self) -> Iterator[tuple[Source, int, int, int]]:
        """Each run's input partition, its numbers in the batch or in the steps' slots, and the index of its first."""
        first = 0
        for run in self._runs:
            count = run.end - run.begin
            begin = run.begin if self.steps is None else first
            yield (run.partition.topic, run.partition.partition), begin, begin + count, first
            first += count

    def message(self, index: int) -> tuple[Message, Mapping[int, HeaderNameError]]:
        """A copy of one record, and the error of its headers, if they cannot be read, as that of index 0.

        All are copied at once when many are asked for.
        """
        if self._all is None and self._single > 0:
            self._single -= 1
            (found,) = self._copies([index])
        else:
            self._all = self._all or self._copies(range(self._count))
            found = self._all[index]
        unreadable: HeaderNameError | None = getattr(found, "unreadable", None)
        return found, {} if unreadable is None else {0: unreadable}


class _Memory:
    """Frames of a part that was taken: C's memory, until this object goes."""

    def __init__(self, library: NativeLibrary, address: int, size: int) -> None:
        self._library = library
        self.address = address
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __del__(self) -> None:
        self._library.calls.fl_release(self.address)


class NativePart(Part):
    """A part whose values are in C's memory.

    number: C's. check: what C files into it; it lives as long as C may use it.
    """

    __slots__ = ("check", "number", "values")

    def __init__(self, values: tuple[str, ...], number: int) -> None:
        super().__init__()
        self.values = values
        self.number = number
        self.check: NativeAvro | None = None


class NativeParts(Parts):
    """As its base. A lock keeps a thread whose producer was abandoned out of memory that the loop's thread changes."""

    def __init__(
        self,
        library: NativeLibrary,
        spool: Spool,
        buffers: Buffers,
        *,
        settings: FileSink,
        check_of: Callable[[Shape], NativeAvro | None],
        most_bytes: int,
    ) -> None:
        """check_of: the values that add nothing to a shape, if C may file them. most_bytes: of a part that is full."""
        self._library = library
        self._check_of = check_of
        self._lock = threading.Lock()
        self._sources: dict[Source, int] = {}
        self._numbered: dict[int, NativePart] = {}
        self._pointer: Any = None
        definition = definition_of(settings)
        self._pointer = library.calls.fl_filing_new(definition, len(definition), most_bytes, secrets.randbits(64))
        if not self._pointer:
            raise ValueError("C does not take these partition columns")
        self._facts: FilingFacts = self._pointer.contents
        super().__init__(spool, buffers)

    def __del__(self) -> None:
        if self._pointer:
            self._library.calls.fl_filing_free(self._pointer)

    @property
    def held_bytes(self) -> int:
        return self._facts.held_bytes

    @property
    def records(self) -> int:
        return self._facts.records

    @property
    def size_bytes(self) -> int:
        return self._facts.size_bytes

    def file(self, outputs: HeldOutputs) -> Iterator[LeftRecord | FullPart]:
        """File outputs; yield what the caller has to do before the next one. Raises OSError when the spool is full."""
        by_c = left = 0
        steps = None if outputs.steps is None else outputs.steps.pointer
        for source, begin, end, first in outputs.runs():
            number = self._sources.setdefault(source, len(self._sources))
            at = ctypes.c_int64(begin)
            while at.value < end:
                before, stop = at.value, Stop.FOR_PYTHON
                if left < _TRIES or left <= by_c:
                    with self._lock:
                        stop = self._library.calls.fl_filing_run(
                            self._pointer, outputs.batch.live, steps, number, ctypes.byref(at), end
                        )
                    by_c += at.value - before
                if stop in (Stop.FOR_PYTHON, Stop.NEW_PART):
                    left += stop == Stop.FOR_PYTHON
                    yield LeftRecord(first + at.value - begin)
                    at.value += 1
                elif stop == Stop.PART_FULL:
                    yield FullPart(self._numbered[self._facts.stopped].values)
                elif stop == Stop.MEMORY_FULL:
                    self.spill()
                elif stop == Stop.FAILED:
                    raise MemoryError("there is no memory for records of files")

    def try_value(self, value: bytes, timestamp_ms: int | None, *, source: Source, offset: int) -> Stop:
        """File one value as C does with a record's."""
        number = self._sources.setdefault(source, len(self._sources))
        with self._lock:
            return Stop(
                self._library.calls.fl_filing_try(
                    self._pointer, value, len(value), timestamp_ms or 0, timestamp_ms is not None, number, offset
                )
            )

    def spill(self) -> None:
        """Make room after MEMORY_FULL."""
        self._spill_if_due()

    def hold(self, part: Part, value: bytes) -> None:
        held = cast(NativePart, part)
        check = self._check_of(part.shape)
        with self._lock:
            size = self._library.calls.fl_filing_hold(self._pointer, held.number, value, len(value))
            if size < 0:
                raise MemoryError("there is no memory for records of files")
            held.size_bytes = size
            if check is not held.check:
                self._library.calls.fl_filing_check(
                    self._pointer, held.number, None if check is None else check.pointer
                )
                held.check = check
        if self._facts.held_bytes > self._facts.look_at:
            self._spill_if_due()

    def take(self, values: tuple[str, ...]) -> Part:
        part = cast(NativePart, self._parts.pop(values))
        with self._lock:
            facts = self._of(part)
            places: list[Source] = list(self._sources)
            for span in cast("list[RangeFacts]", facts.ranges[: facts.range_count]):
                part.cover(places[span.source], span.first, span.last)
            part.size_bytes, part.records = facts.size_bytes, facts.records
            address, size = facts.frames.address, facts.frames.size
            # The memory has one owner at each time, also after an error above.
            self._library.calls.fl_filing_take(self._pointer, part.number)
            if address:
                part.frames = _Memory(self._library, address, size)
        return part

    def clear(self) -> None:
        with self._lock:
            self._library.calls.fl_filing_clear(self._pointer)
            self._numbered.clear()
            super().clear()

    def _new(self, values: tuple[str, ...]) -> Part:
        key = framed(map(str.encode, values))
        with self._lock:
            number = self._library.calls.fl_filing_part(self._pointer, key, len(key))
        if number < 0:
            raise MemoryError("there is no memory for a file")
        made = self._numbered[number] = NativePart(values, number)
        return made

    def _of(self, part: NativePart) -> PartFacts:
        return self._facts.parts[part.number]

    def _spill_if_due(self) -> None:
        with self._lock:
            super()._spill_if_due()
            self._facts.look_at = self._look_at

    def _last_use(self, part: Part) -> int:
        return self._of(cast(NativePart, part)).last_use

    def _spill(self, part: Part) -> int:
        frames = self._of(cast(NativePart, part)).frames
        address, size, room = frames.address, frames.size, frames.room
        if not address or not size:
            return 0
        part.extents.append(self._spool.append_piece(memoryview((ctypes.c_char * size).from_address(address))))
        self._library.calls.fl_filing_drop(self._pointer, cast(NativePart, part).number)
        return room


def definition_of(settings: FileSink) -> bytes:
    """Return the partition columns as columns.c reads them."""
    columns = [
        field_path.parse(column.field)
        if isinstance(column, ByField)
        else "date"
        if isinstance(column, ByDate)
        else "hour"
        for column in settings.partition_by
    ]
    event_time = None if settings.event_time is None else field_path.parse(settings.event_time)
    return msgspec.json.encode({"columns": columns, "event_time": event_time})
