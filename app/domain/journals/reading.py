"""How far a journal has been read, partition by partition, and what in it could not be."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from app.domain.journals.record_batch import Record, RecordBatch, UnreadableBatch, read_records
from app.domain.journals.wire_message import Undecodable

_MAX_REASONS = 100


class Position(msgspec.Struct):
    """first_offset, first_ms: where reading began, and the time of that batch; what is older is not known.

    next_offset: what is before it has been folded, and is not folded again.
    """

    first_offset: int
    first_ms: int
    next_offset: int


class Reading(msgspec.Struct):
    """Positions and counts of one journal.

    unreadable: how often each reason was met. Nothing that a broker may write stops a fold.
    """

    positions: dict[int, Position] = {}
    records: int = 0
    unreadable: dict[str, int] = {}

    def is_news(self, partition: int, batch: RecordBatch | UnreadableBatch) -> bool:
        """Whether the batch lies beyond what has been read; it counts as read from here on."""
        position = self.positions.get(partition)
        if position is None:
            is_readable = isinstance(batch, RecordBatch)
            first_offset = batch.base_offset if is_readable else batch.last_offset
            first_ms = batch.max_timestamp_ms if is_readable else -1
            self.positions[partition] = Position(first_offset, first_ms, batch.last_offset + 1)
            return True
        if batch.last_offset < position.next_offset:
            return False
        position.next_offset = batch.last_offset + 1
        return True

    def records_of(self, batch: RecordBatch | UnreadableBatch) -> Iterator[Record]:
        """Those of a batch, counted; none of one that cannot be read."""
        found = Undecodable(batch.reason, b"") if isinstance(batch, UnreadableBatch) else read_records(batch)
        if isinstance(found, Undecodable):
            self.count_unreadable(found)
            return
        self.records += len(found)
        yield from found

    def count_unreadable(self, what: Undecodable) -> None:
        # Reasons of malformed bytes may all differ: beyond a hundred they are summed up.
        is_kept = what.reason in self.unreadable or len(self.unreadable) < _MAX_REASONS
        reason = what.reason if is_kept else "others"
        self.unreadable[reason] = self.unreadable.get(reason, 0) + 1
