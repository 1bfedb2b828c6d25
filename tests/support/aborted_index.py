"""A replica's index of aborted transactions (`.txnindex`), and what it proves of the replica itself.

A broker reports the aborted transactions of a fetch to `read_committed` consumers by this index alone. It reads no
further than the first entry whose last stable offset is the end of the fetch or lies behind it. In a right index
nothing behind that entry can begin before its last stable offset. A transaction that was open when the entry was
written bounds that offset, and a later one lies behind it. Followers write wrong ones (docs/client-facts.md).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class Entry(NamedTuple):
    """An aborted transaction: its first record, its marker, and the last stable offset that was noted for it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def entries_of(index: bytes) -> list[Entry]:
    """Those of one file; what is left of one that is being written is not taken. ValueError: of an unknown version."""
    found: list[Entry] = []
    for version, *fields in _ENTRY.iter_unpack(index[: len(index) - len(index) % _ENTRY.size]):
        if version != _VERSION:
            raise ValueError(f"an entry of version {version}")
        found.append(Entry(*fields))
    return found


@dataclass(frozen=True, slots=True)
class AbortedIndex:
    """The index of one replica of a partition: the entries of each segment, by the segment's first offset in order."""

    segments: Sequence[tuple[int, Sequence[Entry]]]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """From the replica's folder. A segment in which nothing was aborted has no file."""
        found: list[tuple[int, Sequence[Entry]]] = []
        for log in sorted(folder.glob("*.log")):
            index = log.with_suffix(".txnindex")
            found.append((int(log.stem), entries_of(index.read_bytes()) if index.exists() else ()))
        return cls(found)

    @property
    def entries(self) -> list[Entry]:
        return [entry for _, found in self.segments for entry in found]

    @classmethod
    def of_replicas(cls, log_dirs: Iterable[Path], topic: str, partition: int) -> list[Self]:
        """The indexes of each broker that has a replica, by the brokers' log directories."""
        folders = [log_dir / f"{topic}-{partition}" for log_dir in log_dirs]
        return [cls.read(folder) for folder in folders if folder.is_dir()]

    def hides(self, producer_id: int, offset: int) -> bool:
        """True if it has that producer's aborted transaction at this offset, but behind the entry where a fetch up to
        this offset stops reading the index."""
        is_hidden = False
        for entry in self._searched(offset):
            if is_hidden and entry.producer_id == producer_id and entry.first_offset <= offset <= entry.last_offset:
                return True
            is_hidden = is_hidden or entry.last_stable_offset > offset
        return False

    def _searched(self, offset: int) -> Iterator[Entry]:
        """A fetch is answered from one segment, and looks in its index and in those behind it."""
        first = bisect_right([base for base, _ in self.segments], offset) - 1
        for _, found in self.segments[max(0, first) :]:
            yield from found
