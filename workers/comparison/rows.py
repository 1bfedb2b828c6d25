"""A record on its way to the comparison: its id as a hash, its place, and its compared fields.

    14 bytes  of the id's BLAKE2b
     1 byte   side, and whether it lies in the window
     2 bytes  number of the partition; NO_PARTITION: a record of files or of a table
     8 bytes  offset
     8 bytes  its time, in milliseconds since 1970
     8 bytes  of the BLAKE2b of its fields
     4 bytes  length of the rest: [id, file, fields] as JSON

Unlike the rows of an audit they hold the values: a hash does not name the fields that differ. A second pass over the
other system's data may find other data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import msgspec

from workers.audit.ids import shown
from workers.audit.rows import hash_of

HEAD = Struct("<14sBHQqQI")
NO_PARTITION = 0xFFFF

BASELINE, OUTPUT = 0, 1
PADDING, WINDOW = 0, 2

_decode = msgspec.json.Decoder(tuple[str, str | None, dict[str, Any]]).decode


class Row(NamedTuple):
    """One record; `file`: the file of the baseline's record, if it has one."""

    is_output: bool
    is_window: bool
    number: int
    offset: int
    at_ms: int
    fingerprint: int
    id: str
    file: str | None
    leaves: dict[str, Any]


def unpack(packed: bytes | bytearray) -> list[Row]:
    """Return the rows of packed ones."""
    rows: list[Row] = []
    at = 0
    while at < len(packed):
        _, flags, number, offset, at_ms, fingerprint, length = HEAD.unpack_from(packed, at)
        at += HEAD.size + length
        id_, file, leaves = _decode(packed[at - length : at])
        rows.append(
            Row(bool(flags & OUTPUT), bool(flags & WINDOW), number, offset, at_ms, fingerprint, id_, file, leaves)
        )
    return rows


class ComparedPieces:
    """Rows on their way, sorted into one piece for each bucket. `size`: their bytes."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._pieces = [bytearray() for _ in range(buckets)]
        self.size = 0

    def add(
        self, id_: bytes, flags: int, number: int, offset: int, fields: bytes, file: str | None, *, at_ms: int
    ) -> None:
        """fields: canonical JSON."""
        digest = hash_of(id_)
        rest = msgspec.json.encode((shown(id_), file, msgspec.Raw(fields)))
        fingerprint = int.from_bytes(hashlib.blake2b(fields, digest_size=8).digest(), "little")
        piece = self._pieces[int.from_bytes(digest[:4], "big") % self._buckets]
        piece += HEAD.pack(digest, flags, number, offset, at_ms, fingerprint, len(rest))
        piece += rest
        self.size += HEAD.size + len(rest)

    def drain(self) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces with rows, and forget them."""
        for bucket, piece in enumerate(self._pieces):
            if piece:
                yield bucket, bytes(piece)
                self._pieces[bucket] = bytearray()
        self.size = 0
