"""Which transaction each offset of a partition's log belongs to, and how that ended: from batch headers and markers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from app.core.journals.record_batch import MarkerType, RecordBatch, read_marker
from app.core.journals.wire_message import Undecodable
from tests.support.aborted_index import AbortedIndex


class UnreadableLogError(Exception):
    """A batch that the verifier would have to skip; it skips nothing."""


class Writer(NamedTuple):
    """The writer, from a batch's header. No transactional id: it is not in the log."""

    producer_id: int
    producer_epoch: int


class End(IntEnum):
    OPEN = 0
    COMMITTED = 1
    ABORTED = 2


def offset_after(batch: RecordBatch, expected_offset: int) -> int:
    """Where the batch after this one begins; raises UnreadableLogError if the log does not go on as it should."""
    if batch.base_offset != expected_offset or batch.record_count != batch.last_offset - batch.base_offset + 1:
        raise UnreadableLogError(
            f"records are gone, by retention or compaction: offsets {batch.base_offset} to {batch.last_offset} with "
            f"{batch.record_count} records, where {expected_offset} should come"
        )
    return batch.last_offset + 1


class DecidedLog:
    """One partition, fed in the order of its offsets; a transaction is numbered by its first batch here.

    A producer has at most one transaction at a time, so that a marker ends the one that its producer id has open. The
    epoch of the marker is not compared: it is one more where the coordinator ended it, and in every commit of KIP-890.
    replicas: the brokers' own indexes of what was aborted in it.
    """

    def __init__(self, replicas: Sequence[AbortedIndex] = ()) -> None:
        self._replicas = replicas
        self._writers: list[Writer] = []
        self._ends = bytearray()
        self._open: dict[int, int] = {}
        self._next_offset = 0
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._numbers = array("i")

    def batch(self, batch: RecordBatch) -> None:
        """The next batch of the log. Raises UnreadableLogError."""
        self._next_offset = offset_after(batch, self._next_offset)
        if batch.is_control:
            marker = read_marker(batch)
            if isinstance(marker, Undecodable):
                raise UnreadableLogError(f"the log at offset {batch.base_offset}: {marker.reason}")
            number = self._open.pop(batch.producer_id, None)
            if number is not None:
                self._ends[number] = End.COMMITTED if marker.type is MarkerType.COMMIT else End.ABORTED
        elif batch.is_transactional:
            self._records(batch)

    def _records(self, batch: RecordBatch) -> None:
        number = self._open.get(batch.producer_id)
        if number is None:
            number = self._open[batch.producer_id] = len(self._writers)
            self._writers.append(Writer(batch.producer_id, batch.producer_epoch))
            self._ends.append(End.OPEN)
        self._first_offsets.append(batch.base_offset)
        self._last_offsets.append(batch.last_offset)
        self._numbers.append(number)

    @property
    def open(self) -> list[Writer]:
        """The transactions without a marker."""
        return [self._writers[number] for number in self._open.values()]

    def committed_at(self, offset: int) -> tuple[int, Writer] | None:
        """The committed transaction that wrote this offset: its number and its writer; None if none did."""
        number = self._number_at(offset)
        if number is None or self._ends[number] != End.COMMITTED:
            return None
        return number, self._writers[number]

    def is_aborted_and_hidden(self, offset: int) -> bool:
        """True if an aborted transaction wrote this offset, and a broker's index proves that it returns it to
        `read_committed` consumers all the same."""
        number = self._number_at(offset)
        if number is None or self._ends[number] != End.ABORTED:
            return False
        return any(index.hides(self._writers[number].producer_id, offset) for index in self._replicas)

    def _number_at(self, offset: int) -> int | None:
        batch = bisect_right(self._first_offsets, offset) - 1
        return self._numbers[batch] if batch >= 0 and offset <= self._last_offsets[batch] else None
