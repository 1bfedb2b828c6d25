"""Record batches: compared with Kafka's tool and another encoder, and invalid bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder  # pyright: ignore[reportMissingTypeStubs]

from app.core.journals.compression import Compression
from app.core.journals.record_batch import (
    BatchRecord,
    Marker,
    MarkerType,
    RecordBatch,
    UnreadableBatch,
    read_marker,
    read_records,
    split_batches,
)
from app.core.journals.wire_message import Undecodable
from tests.support.recordings import GROUPS, SINK, TRANSACTIONS, VERSION_NAMES, dumped, recorded_bytes

Builder: Any = DefaultRecordBatchBuilder

i64 = st.integers(-(2**63), 2**63 - 1)
contents = st.one_of(st.none(), st.binary(max_size=40))
headers = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), contents), max_size=2)
entries = st.lists(st.tuples(st.integers(0, 2**41), contents, contents, headers), min_size=1, max_size=5)


def build(
    records: list[tuple[int, bytes | None, bytes | None, Any]], *, codec: int = 0, is_transactional: bool
) -> bytes:
    """A batch as kafka-python writes it."""
    builder = Builder(
        magic=2,
        compression_type=codec,
        is_transactional=is_transactional,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        batch_size=2**30,
    )
    for offset, (timestamp_ms, key, value, record_headers) in enumerate(records):
        builder.append(offset, timestamp=timestamp_ms, key=key, value=value, headers=record_headers)
    return bytes(builder.build())


def only_batch(data: bytes) -> RecordBatch:
    (batch,) = split_batches(data)
    assert isinstance(batch, RecordBatch)
    return batch


def records_of(data: bytes) -> list[BatchRecord]:
    records = read_records(only_batch(data))
    assert not isinstance(records, Undecodable)
    return records


@pytest.mark.parametrize("topic", [TRANSACTIONS, GROUPS, SINK])
@pytest.mark.parametrize("version", VERSION_NAMES)
def test_headers_are_those_that_kafkas_tool_reads(version: str, topic: str) -> None:
    ours = [
        {
            "baseOffset": str(batch.base_offset),
            "lastOffset": str(batch.last_offset),
            "count": str(batch.record_count),
            "baseSequence": str(batch.base_sequence),
            "producerId": str(batch.producer_id),
            "producerEpoch": str(batch.producer_epoch),
            "partitionLeaderEpoch": str(batch.leader_epoch),
            "isTransactional": str(batch.is_transactional).lower(),
            "isControl": str(batch.is_control).lower(),
            "CreateTime": str(batch.max_timestamp_ms),
            "size": str(batch.size_bytes),
            "compresscodec": Compression(batch.codec).name.lower(),
        }
        for batch in split_batches(recorded_bytes(version, topic))
        if isinstance(batch, RecordBatch)
    ]
    theirs = [{name: batch.header[name] for name in ours[0]} for batch in dumped(version, topic)]
    assert ours == theirs


@pytest.mark.parametrize("version", VERSION_NAMES)
def test_records_and_markers_are_those_that_kafkas_tool_reads(version: str) -> None:
    seen: set[MarkerType] = set()
    for data, dump in zip(split_batches(recorded_bytes(version, SINK)), dumped(version, SINK), strict=True):
        assert isinstance(data, RecordBatch)
        if data.is_control:
            marker = read_marker(data)
            assert isinstance(marker, Marker)
            assert (marker.type.name, marker.coordinator_epoch) == dump.records[0].marker
            seen.add(marker.type)
        else:
            records = read_records(data)
            assert not isinstance(records, Undecodable)
            for record, expected in zip(records, dump.records, strict=True):
                assert (record.offset, record.timestamp_ms) == (expected.offset, expected.timestamp_ms)
                key = "" if record.key is None else f"key: {record.key.decode()} "
                assert f"{key}payload: {(record.value or b'').decode()}" == expected.content
    assert seen == set(MarkerType)


@given(entries, st.booleans(), st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_batches_of_another_encoder_are_read(entries: list[Any], is_transactional: bool, codec: Compression) -> None:
    data = build(entries, codec=codec, is_transactional=is_transactional)
    batch = only_batch(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 11)
    assert (batch.is_transactional, batch.is_control, batch.size_bytes) == (is_transactional, False, len(data))
    assert records_of(data) == [
        BatchRecord(offset, timestamp_ms, key, value, tuple(record_headers))
        for offset, (timestamp_ms, key, value, record_headers) in enumerate(entries)
    ]


def test_batches_are_in_order_without_a_truncated_last_one() -> None:
    one = build([(5, b"k", b"v", [])], is_transactional=True)
    for cut in range(1, len(one)):
        assert len(list(split_batches(one + one[:cut]))) == 1
    assert len(list(split_batches(one + one))) == 2


def test_unknown_codec_is_named_by_its_number() -> None:
    data = bytearray(build([(5, b"k", b"v", [])], is_transactional=False))
    data[22] |= 5
    found = read_records(only_batch(bytes(data)))
    assert isinstance(found, Undecodable)
    assert "codec 5" in found.reason


def test_old_message_format_is_named_and_skipped() -> None:
    old = struct.pack(">qiIbb", 41, 14, 0, 1, 0) + bytes(8)
    new = build([(5, b"k", b"v", [])], is_transactional=False)
    first, second = split_batches(old + new)
    assert isinstance(first, UnreadableBatch)
    assert (first.last_offset, first.size_bytes, "format 1" in first.reason) == (41, 26, True)
    assert isinstance(second, RecordBatch)


def test_control_record_of_another_type_is_no_marker() -> None:
    data = build([(5, struct.pack(">hh", 0, 2), bytes(6), [])], is_transactional=False)
    found = read_marker(only_batch(data))
    assert isinstance(found, Undecodable)
    assert "type 2" in found.reason


def test_batch_that_compaction_has_emptied_has_no_records_and_keeps_its_offsets() -> None:
    whole = bytearray(build([(5, b"k", b"v", []), (5, b"k", b"v", [])], is_transactional=False)[:61])
    struct.pack_into(">i", whole, 8, 61 - 12)
    struct.pack_into(">i", whole, 57, 0)
    whole[22] |= Compression.ZSTD
    batch = only_batch(bytes(whole))
    assert (batch.base_offset, batch.last_offset, read_records(batch)) == (0, 1, [])


@given(st.binary(max_size=200))
def test_no_bytes_make_the_splitter_raise(data: bytes) -> None:
    assert all(isinstance(batch, RecordBatch | UnreadableBatch) for batch in split_batches(data))


@given(entries, st.data())
def test_damaged_records_are_reported(entries: list[Any], data: st.DataObject) -> None:
    whole = bytearray(build(entries, is_transactional=True))
    at = data.draw(st.integers(61, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    found = read_records(only_batch(bytes(whole)))
    assert isinstance(found, Undecodable | list)
    assert isinstance(read_marker(only_batch(bytes(whole))), Undecodable | Marker)


def test_header_name_that_is_not_utf_8_is_shown_byte_by_byte() -> None:
    class Latin:
        def encode(self, _encoding: str) -> bytes:
            return b"caf\xe9"

    (record,) = records_of(build([(1, b"k", b"v", [(Latin(), b"1"), ("ok", None)])], is_transactional=False))
    assert record.headers == (("caf\\xe9", b"1"), ("ok", None))
