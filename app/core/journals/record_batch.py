"""Decode Kafka's record batches (magic 2): headers, records and the markers that end transactions.

Client APIs hide the difference between pending and committed records: producer id and epoch, the transactional flag,
control records. They are read here from the bytes of a Fetch at read_uncommitted or of a segment file. Checksums are
not computed: the broker did so when it took the batch, and TCP has its own.
Source: Kafka's documentation, "Message Format"; clients/.../record/internal/DefaultRecordBatch.java; EndTxnMarker.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

import msgspec

from app.core.journals.compression import decompress
from app.core.journals.wire_format import MalformedError
from app.core.journals.wire_message import Undecodable

_HEADER = struct.Struct(">qiibIhiqqqhii")
# Offset, length and magic have the same place in every message format.
_ANY_HEADER = struct.Struct(">qiib")
_LOG_OVERHEAD = 12
_MAGIC = 2
_CODEC_BITS = 0x07
_CONTROL_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_MAX_VARINT_BYTES = 10


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """One batch. -1 stands for "none": a producer without idempotence has no id, control batches have no sequence.

    The offsets from `base_offset` to `last_offset` are its own, records that compaction removed included: it may hold
    fewer records than offsets, or none. `records` are its records as bytes, possibly compressed.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size_bytes: int
    records: bytes

    @property
    def is_transactional(self) -> bool:
        return self.attributes & 0x10 != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & 0x20 != 0

    @property
    def has_log_append_time(self) -> bool:
        """Timestamps are those of the broker's append, the same for the whole batch."""
        return self.attributes & 0x08 != 0

    @property
    def codec(self) -> int:
        """One of compression.Compression, or an unassigned number."""
        return self.attributes & _CODEC_BITS


class UnreadableBatch(msgspec.Struct, frozen=True):
    """A batch in an unsupported format. Reading continues after `last_offset`."""

    last_offset: int
    size_bytes: int
    reason: str


class BatchRecord(msgspec.Struct, frozen=True, gc=False):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class MarkerType(IntEnum):
    ABORT = 0
    COMMIT = 1


class Marker(msgspec.Struct, frozen=True):
    """The marker of a transaction in one partition; `coordinator_epoch` is that of its coordinator."""

    type: MarkerType
    coordinator_epoch: int


def split_batches(data: bytes) -> Iterator[RecordBatch | UnreadableBatch]:
    """Yield the batches of a log's bytes in order. A last one that is cut off, as brokers do, is omitted."""
    at, end = 0, len(data)
    while end - at > _ANY_HEADER.size:
        offset, length, _, magic = _ANY_HEADER.unpack_from(data, at)
        after = at + _LOG_OVERHEAD + length
        if after > end or length <= 0:
            return
        if magic != _MAGIC:
            yield UnreadableBatch(offset, after - at, f"message format {magic}, which is not supported")
        elif after - at < _HEADER.size:
            yield UnreadableBatch(offset, after - at, f"a batch of {after - at} bytes, shorter than its header")
        else:
            yield _batch(data, at, after)
        at = after


def _batch(data: bytes, at: int, after: int) -> RecordBatch:
    (
        base_offset,
        _,
        leader_epoch,
        _,
        _,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = _HEADER.unpack_from(data, at)
    return RecordBatch(
        base_offset,
        base_offset + last_offset_delta,
        leader_epoch,
        attributes,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
        after - at,
        data[at + _HEADER.size : after],
    )


def read_records(batch: RecordBatch) -> list[BatchRecord] | Undecodable:
    """Return the records of a batch; `Undecodable` for an unknown compression, and for malformed records."""
    if batch.record_count == 0:
        # Compaction removed all of them: there is nothing to decompress, for any codec.
        return []
    try:
        codec = batch.attributes & _CODEC_BITS
        return _records(decompress(codec, batch.records) if codec else batch.records, batch)
    except (MalformedError, IndexError, UnicodeDecodeError) as error:
        return Undecodable(f"malformed records: {error}", batch.records)


def _records(data: bytes, batch: RecordBatch) -> list[BatchRecord]:
    found: list[BatchRecord] = []
    at, size = 0, len(data)
    base_offset, base_timestamp_ms = batch.base_offset, batch.base_timestamp_ms
    append_time_ms = batch.max_timestamp_ms if batch.has_log_append_time else None
    for _ in range(batch.record_count):
        length, at = _varint(data, at)
        end = at + length
        if length < 0 or end > size:
            raise MalformedError(f"a record of {length} bytes at {at}, {size - at} left")
        # One byte of attributes, which has no use yet. Journals are mostly batches of one record: both deltas are 0.
        if data[at + 1] == 0 and data[at + 2] == 0:
            timestamp_delta = offset_delta = 0
            at += 3
        else:
            timestamp_delta, at = _varint(data, at + 1)
            offset_delta, at = _varint(data, at)
        key, at = _nullable_bytes(data, at, end)
        value, at = _nullable_bytes(data, at, end)
        header_count, at = _varint(data, at)
        headers, at = _headers(data, at, end, header_count) if header_count else ((), at)
        if at != end:
            raise MalformedError(f"a record that ends at {at} instead of {end}")
        timestamp_ms = base_timestamp_ms + timestamp_delta if append_time_ms is None else append_time_ms
        found.append(BatchRecord(base_offset + offset_delta, timestamp_ms, key, value, headers))
    return found


def _headers(data: bytes, at: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _nullable_bytes(data, at, end)
        content, at = _nullable_bytes(data, at, end)
        # Clients other than Java's write names in any encoding.
        headers.append(((name or b"").decode("utf-8", "backslashreplace"), content))
    return tuple(headers), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Zigzag: signs alternate, so that small numbers of both signs are short."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F | (data[at + 1] & 0x7F) << 7
    if data[at + 1] < 0x80:
        # The length of most records.
        return (value >> 1) ^ -(value & 1), at + 2
    for index in range(2, _MAX_VARINT_BYTES):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise MalformedError(f"a varint longer than {_MAX_VARINT_BYTES} bytes")


def _nullable_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    after = at + length
    if after > end:
        raise MalformedError(f"{length} bytes wanted at {at}, {end - at} left")
    return data[at:after], after


def read_marker(batch: RecordBatch) -> Marker | Undecodable:
    """Decode a control batch; `Undecodable` for control records that do not end a transaction."""
    records = read_records(batch)
    if isinstance(records, Undecodable):
        return records
    if len(records) != 1 or records[0].key is None or len(records[0].key) < _CONTROL_KEY.size:
        return Undecodable(f"a control batch of {len(records)} records without one type", batch.records)
    _, control_type = _CONTROL_KEY.unpack_from(records[0].key)
    value = records[0].value or b""
    if control_type not in (MarkerType.ABORT, MarkerType.COMMIT):
        return Undecodable(f"unknown control record type {control_type}", batch.records)
    if len(value) < _MARKER.size:
        return Undecodable(f"a marker of {len(value)} bytes", batch.records)
    _, coordinator_epoch = _MARKER.unpack_from(value)
    return Marker(MarkerType(control_type), coordinator_epoch)
