"""The inputs that a group's transactions have consumed, from its partition of `__consumer_offsets`."""

from __future__ import annotations

from collections import Counter

from app.core.journals.group_records import GroupRecordKey, RecordType, decode_key, decode_value
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.record_batch import MarkerType, RecordBatch, read_marker, read_records
from app.core.journals.wire_message import Undecodable
from tests.fault_suite.decided import UnreadableLogError, Writer, offset_after
from tests.fault_suite.judging import Consumed


class GroupJournal:
    """Fed the batches of one partition of the journal in order; keeps what `group` commits for `topic`.

    consumed: committed transactions, in the order of their markers. untransacted: commits outside of a transaction,
    which a pipeline of exactly-once never makes. deletions: how often faults have deleted the group's offsets. After
    each, one commit outside of a transaction is right: an operator's, of the offset that was committed last. lost: what
    was deleted and not set there again, by partition. At offset 0 nothing was consumed, so a task may begin there.
    Raises UnreadableLogError.
    """

    def __init__(self, group: str, topic: str, *, deletions: int = 0) -> None:
        self._group = group
        self._topic = topic
        self._deletions = deletions
        self._deleted: Counter[int] = Counter()
        self._committed: dict[int, int] = {}
        self.lost: dict[int, int] = {}
        self._open: dict[int, tuple[Writer, dict[int, int]]] = {}
        self._next_offset = 0
        self.consumed: list[Consumed] = []
        self.aborted = 0
        self.untransacted: list[str] = []

    @property
    def open(self) -> list[Writer]:
        """The pending offsets of the group, of transactions without a marker: the next owner waits for them."""
        return [writer for writer, _ in self._open.values()]

    def batch(self, batch: RecordBatch) -> None:
        self._next_offset = offset_after(batch, self._next_offset)
        if batch.is_control:
            self._marker(batch)
            return
        records = read_records(batch)
        if isinstance(records, Undecodable):
            raise UnreadableLogError(f"the group's journal at offset {batch.base_offset}: {records.reason}")
        for record in records:
            # Keys that cannot be read are of other kinds of groups.
            key = decode_key(record.key or b"")
            if isinstance(key, GroupRecordKey) and self._is_meant(key):
                value = decode_value(key.type, record.value)
                if isinstance(value, OffsetCommit):
                    self._commit(batch, key.partition, value.offset)
                elif value is None and not batch.is_transactional:
                    self._delete(key.partition, record.offset)
                else:
                    raise UnreadableLogError(f"offset {record.offset} of the group's journal is no commit: {value}")

    def _is_meant(self, key: GroupRecordKey) -> bool:
        return key.type == RecordType.OFFSET_COMMIT and key.group == self._group and key.topic == self._topic

    def _delete(self, partition: int, at: int) -> None:
        self._deleted[partition] += 1
        if self._deleted[partition] > self._deletions:
            raise UnreadableLogError(f"offset {at} of the group's journal deletes one of the group, and no fault did")
        if partition in self._committed:
            self.lost[partition] = self._committed.pop(partition)

    def _commit(self, batch: RecordBatch, partition: int, offset: int) -> None:
        if not batch.is_transactional:
            if self.lost.get(partition) == offset:
                del self.lost[partition]
            else:
                said = f"partition {partition} to {offset} at offset {batch.base_offset} of the journal"
                self.untransacted.append(said)
            self._committed[partition] = offset
            return
        writer = Writer(batch.producer_id, batch.producer_epoch)
        _, offsets = self._open.setdefault(batch.producer_id, (writer, {}))
        offsets[partition] = offset

    def _marker(self, batch: RecordBatch) -> None:
        marker = read_marker(batch)
        if isinstance(marker, Undecodable):
            raise UnreadableLogError(f"the group's journal at offset {batch.base_offset}: {marker.reason}")
        ended = self._open.pop(batch.producer_id, None)
        if ended is None:
            return
        if marker.type is MarkerType.COMMIT:
            self.consumed.append(Consumed(*ended))
            for partition, offset in self.consumed[-1].next_offsets.items():
                self._committed[partition] = offset
                if self.lost.get(partition) == 0:
                    del self.lost[partition]
        else:
            self.aborted += 1
