"""Determine the outcome of each batch in a range of a partition's log: markers are applied to the batches before them.

The outcome of a transaction in a partition is the next marker of the same producer id. If the range ends before that
marker, the broker's list of aborted transactions decides the batches below the last stable offset. Above it, a batch is
open if the range reaches the end of the log, and unknown otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from app.core.journals.compression import codec_name
from app.core.journals.log_content import Content, RecordHeader, content
from app.core.journals.log_look import LogLook
from app.core.journals.record_batch import (
    BatchRecord,
    Marker,
    MarkerType,
    RecordBatch,
    UnreadableBatch,
    read_marker,
    read_records,
)
from app.core.journals.wire_message import Undecodable


class EntryState(StrEnum):
    """PLAIN: written without a transaction. OPEN: without a marker. MARKER: decides other batches.

    UNKNOWN: its marker, if there is one, is behind the end of the range. UNREADABLE: in an unsupported format.
    """

    PLAIN = "plain"
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    MARKER = "marker"
    UNREADABLE = "unreadable"


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record. None stands for null, and for values that were not requested."""

    offset: int
    timestamp_ms: int
    key: Content | None = None
    value: Content | None = None
    headers: tuple[RecordHeader, ...] = ()


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a marker decides, as far as they are in the range.

    first_offset: None if none of them is. is_whole: False if records before the range may belong to it.
    """

    first_offset: int | None
    record_count: int
    is_whole: bool


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One batch. None stands for "none", or "not known" of a batch that cannot be read.

    decided_at: the offset of its marker, if that is in the range. decides: the records that a marker decides. records:
    if they were requested. note: the reason for unreadable records, and other information for a reader.
    """

    base_offset: int
    last_offset: int
    state: EntryState
    size_bytes: int
    timestamp_ms: int | None = None
    record_count: int | None = None
    compression: str | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    is_transactional: bool = False
    is_control: bool = False
    transactional_id: str | None = None
    marker: str | None = None
    coordinator_epoch: int | None = None
    decided_at: int | None = None
    decides: Decided | None = None
    note: str | None = None
    records: tuple[LogRecord, ...] = ()


def entries_of(
    look: LogLook, *, limit: int | None = None, keys: bool = False, values: bool = False
) -> tuple[LogEntry, ...]:
    """Return an entry for each of the first `limit` batches of the range, in their order; later ones only decide."""
    fold = _Fold(look)
    found = [fold.entry(batch) for batch in look.batches]
    for index, (note, changes) in fold.decisions().items():
        found[index] = msgspec.structs.replace(found[index], note=_joined(found[index].note, note), **changes)
    del found[limit if limit is not None else len(found) :]
    if keys or values:
        found = [_with_records(*pair, keys=keys, values=values) for pair in zip(look.batches, found, strict=False)]
    return tuple(found)


def named(entries: tuple[LogEntry, ...], ids: Mapping[int, str]) -> tuple[LogEntry, ...]:
    """Add the transactional ids of the producers that `ids` has."""
    return tuple(
        msgspec.structs.replace(entry, transactional_id=ids.get(entry.producer_id))
        if entry.is_transactional and entry.producer_id is not None
        else entry
        for entry in entries
    )


_Decision = tuple[str | None, dict[str, object]]
"""A note, and the changes of an entry."""


class _Producer:
    """The state of one producer id within the range: its batches without a marker."""

    def __init__(self) -> None:
        self.undecided: list[int] = []
        self.last_marker: int | None = None
        self.epoch: int | None = None


class _Fold:
    def __init__(self, look: LogLook) -> None:
        self._look = look
        self._producers: defaultdict[int, _Producer] = defaultdict(_Producer)
        self._at = 0
        self._decisions: dict[int, _Decision] = {}
        self._aborted: defaultdict[int, list[int]] = defaultdict(list)
        for aborted in look.aborted:
            self._aborted[aborted.producer_id].append(aborted.first_offset)

    def entry(self, batch: RecordBatch | UnreadableBatch) -> LogEntry:
        """Return the entry of the next batch; `decisions` has later outcomes."""
        index, self._at = self._at, self._at + 1
        if isinstance(batch, UnreadableBatch):
            return LogEntry(
                base_offset=batch.last_offset,
                last_offset=batch.last_offset,
                state=EntryState.UNREADABLE,
                size_bytes=batch.size_bytes,
                note=batch.reason,
            )
        entry = _header(batch)
        if batch.is_control:
            return self._control(entry, batch)
        if not batch.is_transactional:
            return entry
        producer = self._producers[batch.producer_id]
        producer.undecided.append(index)
        before, producer.epoch = producer.epoch, batch.producer_epoch
        note = None
        if before is not None and before != batch.producer_epoch:
            note = (
                f"epoch {before} → {batch.producer_epoch}: its transactional id was initialised again, or, with "
                "KIP-890, ended transactions that wrote nothing here"
            )
        return msgspec.structs.replace(entry, state=EntryState.UNKNOWN, note=note)

    def _control(self, entry: LogEntry, batch: RecordBatch) -> LogEntry:
        marker = read_marker(batch)
        if isinstance(marker, Undecodable):
            return msgspec.structs.replace(entry, state=EntryState.UNREADABLE, note=marker.reason)
        producer = self._producers[batch.producer_id]
        state = EntryState.COMMITTED if marker.type is MarkerType.COMMIT else EntryState.ABORTED
        for index in producer.undecided:
            self._decisions[index] = None, {"state": state, "decided_at": batch.base_offset}
        decides = self._decided(producer, batch, marker)
        note = _marker_note(marker, batch.producer_epoch, producer.epoch, decides)
        producer.undecided, producer.last_marker, producer.epoch = [], batch.base_offset, batch.producer_epoch
        return msgspec.structs.replace(
            entry,
            state=EntryState.MARKER,
            marker=marker.type.name,
            coordinator_epoch=marker.coordinator_epoch,
            decides=decides,
            note=note,
        )

    def _decided(self, producer: _Producer, batch: RecordBatch, marker: Marker) -> Decided:
        batches = [self._look.batches[index] for index in producer.undecided]
        readable = [each for each in batches if isinstance(each, RecordBatch)]
        first_offset = readable[0].base_offset if readable else None
        is_whole = self._look.is_from_beginning or producer.last_marker is not None
        if marker.type is MarkerType.ABORT and not is_whole:
            listed = self._aborted_between(batch.producer_id, producer.last_marker, batch.base_offset)
            is_whole = listed is not None and listed == first_offset
        return Decided(
            first_offset=first_offset, record_count=sum(each.record_count for each in readable), is_whole=is_whole
        )

    def _aborted_between(self, producer_id: int, after: int | None, until: int) -> int | None:
        """Return the first offset of the producer's aborted transaction in the broker's list."""
        firsts = [first for first in self._aborted[producer_id] if (after is None or first > after) and first <= until]
        return max(firsts, default=None)

    def decisions(self) -> dict[int, _Decision]:
        """Return the outcomes of batches by their index: by markers in the range, or by the broker's answer."""
        look, bounds = self._look, self._look.bounds
        holder, ends = self._holder(), f"offset {self._look.next_offset - 1}, the end of this range"
        for producer_id, producer in self._producers.items():
            for index in producer.undecided:
                offset = look.batches[index].last_offset
                if offset < look.decided_until:
                    is_aborted = self._aborted_between(producer_id, producer.last_marker, offset) is not None
                    state = EntryState.ABORTED if is_aborted else EntryState.COMMITTED
                    note = f"by the broker's list of aborted transactions; its marker is after {ends}"
                    self._decisions[index] = note, {"state": state}
                elif look.is_at_end or producer_id == holder:
                    self._decisions[index] = None, {"state": EntryState.OPEN}
                elif offset < bounds.last_stable_offset:
                    self._decisions[index] = f"decided, by a marker after {ends}", {}
                else:
                    self._decisions[index] = f"no marker up to {ends}", {}
        return self._decisions

    def _holder(self) -> int | None:
        """Return the producer whose transaction begins at the last stable offset: that one is open, for any end of the
        range.
        """
        lso = self._look.bounds.last_stable_offset
        if lso >= self._look.bounds.high_watermark:
            return None
        for batch in self._look.batches:
            if isinstance(batch, RecordBatch) and batch.base_offset <= lso <= batch.last_offset:
                return batch.producer_id if batch.is_transactional and not batch.is_control else None
        return None


def _header(batch: RecordBatch) -> LogEntry:
    return LogEntry(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        state=EntryState.PLAIN,
        size_bytes=batch.size_bytes,
        timestamp_ms=batch.max_timestamp_ms,
        record_count=batch.record_count,
        compression=codec_name(batch.codec),
        leader_epoch=batch.leader_epoch,
        producer_id=_or_none(batch.producer_id),
        producer_epoch=_or_none(batch.producer_epoch),
        base_sequence=_or_none(batch.base_sequence),
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


def _marker_note(marker: Marker, epoch: int, data_epoch: int | None, decides: Decided) -> str | None:
    """Compare the marker's epoch with the data's; None for the usual case."""
    if decides.first_offset is None or data_epoch is None:
        if decides.is_whole:
            return "it decides no records here: its transaction has none in this log, or none any more"
        return "the records that it decides, if any, are before this range"
    is_commit = marker.type is MarkerType.COMMIT
    if epoch == data_epoch:
        return None if is_commit else "aborted at the data's own epoch: by its producer, or ended here by an operator"
    if epoch != data_epoch + 1:
        return f"the marker's epoch is {epoch}, the data's {data_epoch}"
    if is_commit:
        return "committed at the next epoch, as every transaction of a KIP-890 client: no producer was fenced"
    return (
        "aborted at the next epoch: by the coordinator (its id was initialised again, it timed out, or an operator "
        "fenced it), or by a KIP-890 client itself"
    )


def _with_records(batch: RecordBatch | UnreadableBatch, entry: LogEntry, *, keys: bool, values: bool) -> LogEntry:
    if not isinstance(batch, RecordBatch) or batch.is_control:
        return entry
    records = read_records(batch)
    if isinstance(records, Undecodable):
        return msgspec.structs.replace(entry, note=_joined(entry.note, records.reason))
    return msgspec.structs.replace(
        entry, records=tuple(log_record(record, keys=keys, values=values) for record in records)
    )


def log_record(record: BatchRecord, *, keys: bool, values: bool) -> LogRecord:
    """Headers belong to the value: they are included with it."""
    return LogRecord(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=content(record.key) if keys else None,
        value=content(record.value) if values else None,
        headers=tuple(RecordHeader(name=name, value=content(value)) for name, value in record.headers)
        if values
        else (),
    )
