"""What the coordinator writes about a transactional id into `__transaction_state`: bytes to records, and back.

Key version 0: int16 version, then the transactional id (int16 length).
Value version 0 has fixed-width lengths; version 1 (transaction.version >= 1) has compact ones and tagged fields.
A null value is a tombstone: the id has expired. Whatever cannot be read is an `Undecodable`, never an exception: a
journal is read through to its end whoever wrote it.
Source: Kafka, transaction-coordinator/src/main/resources/common/message/TransactionLog{Key,Value}.json.
"""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from app.domain import wire_format

TOPIC = "__transaction_state"


class TransactionStatus(IntEnum):
    """
    EMPTY ─▶ ONGOING ─▶ PREPARE_COMMIT ─▶ COMPLETE_COMMIT ─▶ ONGOING or EMPTY
                  └───▶ PREPARE_ABORT ──▶ COMPLETE_ABORT  ─▶ ONGOING or EMPTY
    EMPTY is written by InitProducerId. DEAD and PREPARE_EPOCH_FENCE live in the coordinator's memory only.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class Undecodable(msgspec.Struct, frozen=True):
    """Bytes of a version we do not know, or that are not what their version says; `reason` says which."""

    reason: str
    raw: bytes


class TopicPartitions(msgspec.Struct, frozen=True):
    topic: str
    partitions: tuple[int, ...]


class TransactionState(msgspec.Struct, frozen=True, kw_only=True):
    """One state of one transactional id. -1 stands for "none" where Kafka has it so.

    partitions: None where the coordinator wrote null (nothing was added to the transaction).
    start_ms: when the open (or just ended) transaction began; last_update_ms: when this state was entered.
    unknown_tags: tagged fields newer than this decoder, as (tag, bytes), kept so that encoding loses nothing.
    """

    version: int = 1
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: tuple[TopicPartitions, ...] | None = None
    last_update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    unknown_tags: tuple[tuple[int, bytes], ...] = ()


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the journal. `state` None is a tombstone; `timestamp_ms` is the coordinator's clock."""

    transactional_id: str
    state: TransactionState | Undecodable | None
    partition: int
    offset: int
    timestamp_ms: int


_STATUSES = frozenset(int(status) for status in TransactionStatus)
_FIXED = struct.Struct(">qhib")
_TIMES = struct.Struct(">qq")
_TAGS: tuple[tuple[int, str, struct.Struct, int], ...] = (
    (0, "previous_producer_id", struct.Struct(">q"), -1),
    (1, "next_producer_id", struct.Struct(">q"), -1),
    (2, "client_transaction_version", struct.Struct(">h"), 0),
    (3, "next_producer_epoch", struct.Struct(">h"), -1),
)


def decode_key(data: bytes) -> str | Undecodable:
    """The transactional id that a record's key names."""
    try:
        reader = wire_format.Reader(data)
        version = reader.int16()
        return reader.string() if version == 0 else Undecodable(f"unknown key version {version}", data)
    except wire_format.MalformedError as error:
        return Undecodable(f"malformed key: {error}", data)


def encode_key(transactional_id: str) -> bytes:
    writer = wire_format.Writer()
    writer.int16(0)
    writer.string(transactional_id)
    return writer.bytes()


def decode_value(data: bytes | None) -> TransactionState | Undecodable | None:
    """The state in a record's value; None for a tombstone."""
    if data is None:
        return None
    try:
        reader = wire_format.Reader(data)
        version = reader.int16()
        if version not in (0, 1):
            return Undecodable(f"unknown value version {version}", data)
        return _decode_state(reader, version)
    except wire_format.MalformedError as error:
        return Undecodable(f"malformed value: {error}", data)


def _decode_state(reader: wire_format.Reader, version: int) -> TransactionState:
    is_flexible = version >= 1
    producer_id, epoch, timeout_ms, status = reader.unpack(_FIXED)
    if status not in _STATUSES:
        raise wire_format.MalformedError(f"unknown transaction status {status}")
    count = reader.compact_length() if is_flexible else reader.int32()
    partitions: tuple[TopicPartitions, ...] | None = None
    if count >= 0:
        partitions = tuple(_decode_topic(reader, is_flexible=is_flexible) for _ in range(count))
    last_update_ms, start_ms = reader.unpack(_TIMES)
    tags = reader.tagged_fields() if is_flexible else {}
    known = {
        name: wire_format.Reader(tags.pop(tag)).unpack(form)[0] if tag in tags else default
        for tag, name, form, default in _TAGS
    }
    return TransactionState(
        version=version,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        status=TransactionStatus(status),
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        unknown_tags=tuple(sorted(tags.items())),
        **known,
    )


def _decode_topic(reader: wire_format.Reader, *, is_flexible: bool) -> TopicPartitions:
    topic = reader.compact_string() if is_flexible else reader.string()
    count = reader.compact_length() if is_flexible else reader.int32()
    numbers = tuple(reader.int32() for _ in range(count))
    if is_flexible:
        reader.tagged_fields()
    return TopicPartitions(topic, numbers)


def encode_value(state: TransactionState) -> bytes:
    """The bytes that a coordinator of `state.version` would write; version 0 cannot carry the tagged fields."""
    is_flexible = state.version >= 1
    writer = wire_format.Writer()
    writer.int16(state.version)
    writer.pack(_FIXED, state.producer_id, state.producer_epoch, state.timeout_ms, int(state.status))
    count = -1 if state.partitions is None else len(state.partitions)
    writer.compact_length(count) if is_flexible else writer.int32(count)
    for entry in state.partitions or ():
        _encode_topic(writer, entry, is_flexible=is_flexible)
    writer.pack(_TIMES, state.last_update_ms, state.start_ms)
    if is_flexible:
        tags = dict(state.unknown_tags)
        for tag, name, form, default in _TAGS:
            value = getattr(state, name)
            if value != default:
                tags[tag] = form.pack(value)
        writer.tagged_fields(tags)
    return writer.bytes()


def _encode_topic(writer: wire_format.Writer, entry: TopicPartitions, *, is_flexible: bool) -> None:
    if is_flexible:
        writer.compact_string(entry.topic)
        writer.compact_length(len(entry.partitions))
    else:
        writer.string(entry.topic)
        writer.int32(len(entry.partitions))
    for number in entry.partitions:
        writer.int32(number)
    if is_flexible:
        writer.tagged_fields({})
