"""The positions in a journal, partition by partition, and its unreadable parts."""

from __future__ import annotations

import msgspec

from app.core.journals.record_batch import BatchRecord, RecordBatch, UnreadableBatch, read_records
from app.core.journals.wire_message import Undecodable

_MAX_REASONS = 100


class Position(msgspec.Struct):
    """first_offset, first_ms: of the first batch that was read; older ones are not known.

    next_offset: everything before it was applied, and is not applied again.
    whole_offset, whole_ms: from there on every record was read; before it, compaction or deletion had removed some.
    """

    first_offset: int
    first_ms: int
    next_offset: int
    whole_offset: int = 0
    whole_ms: int = -1

    @property
    def is_whole(self) -> bool:
        """No record is missing, from the first one on."""
        return self.whole_offset == 0


class JournalCounts(msgspec.Struct):
    """Positions and counts of one journal.

    unreadable: the number of occurrences by reason. Unreadable records never stop the reading.
    """

    positions: dict[int, Position] = {}
    records: int = 0
    unreadable: dict[str, int] = {}

    def is_news(self, partition: int, batch: RecordBatch | UnreadableBatch) -> bool:
        """Return True if the batch is beyond the position, and advance the position."""
        position = self.positions.get(partition)
        if position is None:
            is_readable = isinstance(batch, RecordBatch)
            first_offset = batch.base_offset if is_readable else batch.last_offset
            first_ms = batch.max_timestamp_ms if is_readable else -1
            position = self.positions[partition] = Position(first_offset, first_ms, 0)
        elif batch.last_offset < position.next_offset:
            return False
        if isinstance(batch, RecordBatch):
            if batch.base_offset > position.next_offset:
                position.whole_offset, position.whole_ms = batch.base_offset, batch.max_timestamp_ms
            if batch.record_count <= batch.last_offset - batch.base_offset:
                position.whole_offset, position.whole_ms = batch.last_offset + 1, batch.max_timestamp_ms
        position.next_offset = batch.last_offset + 1
        return True

    def forget(self, partition: int) -> None:
        """Start this partition again: its records are gone from the log, or the log was replaced."""
        self.positions.pop(partition, None)

    def records_of(self, batch: RecordBatch | UnreadableBatch) -> list[BatchRecord]:
        """Return and count the records of a batch; none of an unreadable one."""
        found = Undecodable(batch.reason, b"") if isinstance(batch, UnreadableBatch) else read_records(batch)
        if isinstance(found, Undecodable):
            self.count_unreadable(found)
            return []
        self.records += len(found)
        return found

    def count_unreadable(self, what: Undecodable) -> None:
        # Reasons of malformed bytes may all differ: beyond a hundred they count together.
        is_kept = what.reason in self.unreadable or len(self.unreadable) < _MAX_REASONS
        reason = what.reason if is_kept else "others"
        self.unreadable[reason] = self.unreadable.get(reason, 0) + 1
