"""A record on its way to the comparison: 24 bytes, packed by the thousand into one piece.

    16 bytes  key    14 of the id's BLAKE2b, then the number of the sink that the record is in, or is expected in
     8 bytes  word   partition (16 bits), offset (46 bits), its side, whether it lies in the window

With 112 bits of the hash the chance that any two of 100 million ids meet is about 1 in 10^18. Rows of one id have equal
first bytes, so one bucket holds them all, for all sinks. Spark shuffles a few hundred pieces a task instead of millions
of rows, at almost no cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from struct import Struct

ROW = Struct("<16sQ")
_WORD = Struct("<Q")
_HASH_BYTES = 14
MOST_PARTITIONS = 1 << 16
MOST_OFFSETS = 1 << 46

EXPECTED, FOUND = 0, 1
"""Sides of a row: a required output, at the place of its input; a found output, at its own."""
PADDING, WINDOW = 0, 2


class TooLargeError(Exception):
    """More partitions, or larger offsets, than a row has bits for."""


def hash_of(id_: bytes) -> bytes:
    return hashlib.blake2b(id_, digest_size=_HASH_BYTES).digest()


def base_of(partition_number: int) -> int:
    """The common part of `word` in a partition's rows; partitions of all topics are numbered together."""
    if partition_number >= MOST_PARTITIONS:
        raise TooLargeError(f"an audit reads at most {MOST_PARTITIONS} partitions; audit fewer topics at once")
    return partition_number << 48


def place_of(word: int) -> tuple[int, int]:
    """The partition's number and the offset."""
    return word >> 48, (word >> 2) & (MOST_OFFSETS - 1)


class Pieces:
    """Rows on their way, sorted into one piece for each bucket."""

    def __init__(self, buckets: int) -> None:
        self._pieces = [bytearray() for _ in range(buckets)]
        self._buckets = buckets

    def add(self, id_: bytes, sink: bytes, word: int) -> None:
        """`sink`: the two bytes of its number."""
        digest = hashlib.blake2b(id_, digest_size=_HASH_BYTES).digest()
        piece = self._pieces[int.from_bytes(digest[:4], "big") % self._buckets]
        piece += digest
        piece += sink
        piece += _WORD.pack(word)

    def by_bucket(self) -> Iterator[tuple[int, bytes]]:
        """The pieces with rows."""
        return ((bucket, bytes(piece)) for bucket, piece in enumerate(self._pieces) if piece)


def sink_bytes(number: int) -> bytes:
    return number.to_bytes(2, "little")
