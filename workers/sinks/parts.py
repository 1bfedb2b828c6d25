"""The parts of an open checkpoint: for each partition value, the records that will be one file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from weakref import WeakSet

from app.core.avro_schemas.shape import NOTHING, Shape
from workers.sinks.frames import Frames, in_pieces, values_of
from workers.sinks.spool import Extent, Spool

_LOOKS = 32
"""How often the sum of all is read while they are filled once."""
MOST_PARTS = 20_000
"""The limit for all producers of a task together: each takes about 3 kB until its reference is written."""
Source = tuple[str, int]
"""An input partition: topic and number, as a plain tuple, since each record has one."""


class Part:
    """The records of one partition value, in the order in which they came."""

    __slots__ = (
        "buffered",
        "buffered_bytes",
        "extents",
        "frames",
        "opened_at_ms",
        "ranges",
        "records",
        "shape",
        "size_bytes",
        "used",
    )

    def __init__(self) -> None:
        self.shape: Shape = NOTHING
        self.used = 0
        self.opened_at_ms = int(time.time() * 1000)
        self.records = 0
        self.size_bytes = 0
        self.buffered: list[bytes] = []
        self.buffered_bytes = 0
        self.extents: list[Extent] = []
        self.frames: Frames = b""
        """The values that C held when the part was taken; then nothing is buffered."""
        self.ranges: dict[Source, list[int]] = {}
        """The lowest and the highest offset in it, of each input partition."""

    def cover(self, source: Source, first: int, last: int) -> None:
        """Add offsets to the ranges."""
        span = self.ranges.get(source)
        if span is None:
            self.ranges[source] = [first, last]
        else:
            span[:] = min(span[0], first), max(span[1], last)

    def release(self) -> None:
        """Free the memory of the values."""
        self.extents, self.buffered, self.frames = [], [], b""


class PartValues:
    """The values of a part, in their order, which can be read until its spool is cleared."""

    def __init__(self, spool: Spool, part: Part) -> None:
        self._spool = spool
        self._part = part

    def __iter__(self) -> Iterator[bytes]:
        yield from self._spool.read(self._part.extents)
        yield from values_of(self._part.frames)
        yield from self._part.buffered

    def pieces(self) -> Iterator[Frames]:
        """The same as frames."""
        yield from self._spool.pieces(self._part.extents)
        if len(self._part.frames):
            yield self._part.frames
        yield from in_pieces(self._part.buffered)


class Buffers:
    """The bytes that all parts of a task may hold in memory; beyond that they are written to their spools.

    One for all producers of a task: `exactly_once` has one for each input partition, and their commits run on threads
    of their own. Each counts for itself, and reads the sum only now and then.
    """

    def __init__(self, most_bytes: int = 32 * 1024 * 1024) -> None:
        self.most_bytes = most_bytes
        self._members: WeakSet[Parts] = WeakSet()

    def join(self, parts: Parts) -> None:
        self._members.add(parts)

    def is_crowded_by(self, parts: Parts) -> bool:
        """True if all together hold as many parts as allowed, and this one its share of them or more."""
        return len(parts) * len(self._members) >= MOST_PARTS and sum(map(len, self._members)) >= MOST_PARTS

    @property
    def held_bytes(self) -> int:
        return sum(parts.held_bytes for parts in self._members)


class Parts:
    """By partition value. Raises OSError when the spool cannot be written."""

    def __init__(self, spool: Spool, buffers: Buffers) -> None:
        self._spool = spool
        self._buffers = buffers
        self._parts: dict[tuple[str, ...], Part] = {}
        self._held_bytes = self._records = self._size_bytes = 0
        self._look_at = 0
        self._uses = 0
        buffers.join(self)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def held_bytes(self) -> int:
        """The bytes in memory."""
        return self._held_bytes

    @property
    def records(self) -> int:
        """The records added since `clear`, in parts that were taken too."""
        return self._records

    @property
    def size_bytes(self) -> int:
        """The bytes of these records' values."""
        return self._size_bytes

    def find(self, values: tuple[str, ...]) -> Part | None:
        return self._parts.get(values)

    def get(self, values: tuple[str, ...]) -> Part:
        """The part of this partition value, made if there is none."""
        part = self._parts.get(values)
        if part is None:
            part = self._parts[values] = self._new(values)
        return part

    def hold(self, part: Part, value: bytes) -> None:
        """Add a value."""
        size = len(value)
        self._uses += 1
        part.used = self._uses
        part.buffered.append(value)
        part.buffered_bytes += size
        part.size_bytes += size
        part.records += 1
        self._held_bytes += size
        self._size_bytes += size
        self._records += 1
        if self._held_bytes > self._look_at:
            self._spill_if_due()

    def take(self, values: tuple[str, ...]) -> Part:
        """The part, which is not open any more; its bytes in memory do not count from here on."""
        part = self._parts.pop(values)
        self._held_bytes -= part.buffered_bytes
        return part

    def take_all(self) -> Iterator[tuple[tuple[str, ...], Part]]:
        """Take each part."""
        while self._parts:
            values = next(iter(self._parts))
            yield values, self.take(values)

    def clear(self) -> None:
        """Forget all, and free the spool's space."""
        self._parts.clear()
        self._held_bytes = self._records = self._size_bytes = self._look_at = 0
        self._spool.clear()

    def values(self, part: Part) -> PartValues:
        """The values that were added to it, in their order."""
        return PartValues(self._spool, part)

    def _new(self, values: tuple[str, ...]) -> Part:  # noqa: ARG002 - it need not know them
        return Part()

    def _spill_if_due(self) -> None:
        """Spill the least recently used until half is free; all parts of this producer where others hold the most."""
        most, free = self._buffers.most_bytes, self._buffers.most_bytes // 2
        held = self._buffers.held_bytes
        if held > most:
            for part in sorted(self._parts.values(), key=self._last_use):
                held -= self._spill(part)
                if held <= free:
                    break
        self._look_at = self.held_bytes + most // _LOOKS

    def _last_use(self, part: Part) -> int:
        return part.used

    def _spill(self, part: Part) -> int:
        """Write its values in memory to the spool; return their bytes."""
        if not part.buffered:
            return 0
        part.extents.append(self._spool.append(part.buffered))
        size = part.buffered_bytes
        self._held_bytes -= size
        part.buffered, part.buffered_bytes = [], 0
        return size
