"""Decoding `__consumer_offsets`: compared with Kafka's own tool, round trips, and invalid bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals import transaction_state
from app.core.journals.group_records import (
    KEY,
    VALUES,
    GroupRecordKey,
    RecordType,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from app.core.journals.group_values.classic import ClassicGroup, decode_assignment
from app.core.journals.group_values.consumer import CurrentAssignment, GroupEpoch, MemberState
from app.core.journals.record_batch import BatchRecord, RecordBatch, read_records, split_batches
from app.core.journals.transaction_state import TopicPartitions
from app.core.journals.wire_message import Undecodable
from tests.core.journals.layouts import assert_same, values
from tests.support.recordings import GROUPS, TRANSACTIONS, VERSION_NAMES, DumpedRecord, dumped, recorded_bytes

types = st.sampled_from(RecordType)
versioned_values = st.sampled_from(
    [(each, version) for each in RecordType for version in VALUES[each].layouts]
).flatmap(lambda at: values(VALUES[at[0]].layouts[at[1]], at[1]).map(lambda value: (*at, value)))


def recorded(version: str, topic: str) -> list[tuple[BatchRecord, DumpedRecord]]:
    """Every record except markers, decoded here and by Kafka's tool."""
    pairs: list[tuple[BatchRecord, DumpedRecord]] = []
    for batch, dump in zip(split_batches(recorded_bytes(version, topic)), dumped(version, topic), strict=True):
        assert isinstance(batch, RecordBatch)
        if not batch.is_control:
            records = read_records(batch)
            assert not isinstance(records, Undecodable)
            pairs += zip(records, dump.records, strict=True)
    return pairs


@pytest.mark.parametrize("version", VERSION_NAMES)
def test_group_records_are_those_that_kafkas_tool_reads(version: str) -> None:
    seen: set[tuple[int, bool]] = set()
    for record, dump in recorded(version, GROUPS):
        key = decode_key(record.key or b"")
        assert isinstance(key, GroupRecordKey)
        assert str(key.type) == dump.key["type"]
        assert_same(KEY.layouts[key.type], key.type, key, dump.key["data"])
        value = decode_value(key.type, record.value)
        payload = dump.payload
        seen.add((key.type, payload is None))
        if payload is None:
            assert value is None
            continue
        number = int(payload["version"])
        assert_same(VALUES[key.type].layouts[number], number, value, payload["data"])
        assert not isinstance(value, Undecodable)
        assert value is not None
        if key.type != RecordType.MEMBER:
            # Kafka writes out the null of a member's tagged structure, its default though it is.
            assert encode_value(key.type, value, number) == record.value
        assert encode_key(key) == record.key
    everything = {(int(each), is_tombstone) for each in RecordType for is_tombstone in (False, True)}
    never_written = {each for each in everything if each[0] == RecordType.LEGACY_OFFSET_COMMIT}
    # There is no Streams client among the scenes, and no share consumer.
    absent = {each for each in RecordType if each.name.startswith(("STREAMS_", "SHARE_"))}
    never_written |= {each for each in everything if each[0] in absent}
    if version.startswith("4."):
        never_written |= {each for each in everything if each[0] == RecordType.PARTITION_METADATA}
    else:
        never_written |= {each for each in everything if each[0] == RecordType.PATTERN}
    never_deleted = {
        (int(each), True)
        for each in (RecordType.GROUP_EPOCH, RecordType.TARGET_ASSIGNMENT_EPOCH, RecordType.PARTITION_METADATA)
    }
    assert seen >= everything - never_written - never_deleted, everything - seen


@pytest.mark.parametrize("version", VERSION_NAMES)
def test_transaction_records_are_those_that_kafkas_tool_reads(version: str) -> None:
    seen: set[int] = set()
    for record, dump in recorded(version, TRANSACTIONS):
        assert transaction_state.decode_key(record.key or b"") == dump.key["data"]["transactionalId"]
        state = transaction_state.decode_value(record.value)
        payload = dump.payload
        assert isinstance(state, transaction_state.TransactionState)
        assert payload is not None
        assert state.version == int(payload["version"])
        assert_same(transaction_state.VALUE.layouts[state.version], state.version, state, payload["data"])
        assert transaction_state.encode_value(state) == record.value
        seen.add(state.version)
    assert seen == {1 if version.startswith("4.") else 0}


def test_recorded_journal_has_a_member_that_revokes_partitions() -> None:
    states = [
        value
        for record, _ in recorded(VERSION_NAMES[0], GROUPS)
        if record.value is not None
        and isinstance(value := decode_value(_type_of(record), record.value), CurrentAssignment)
    ]
    giving_up = [state for state in states if state.state is MemberState.UNREVOKED_PARTITIONS]
    assert giving_up
    assert all(state.pending_revocation for state in giving_up)


@pytest.mark.parametrize("version", VERSION_NAMES)
def test_assignments_of_classic_members_cover_the_topic(version: str) -> None:
    owners = 0
    for record, _ in recorded(version, GROUPS):
        group = decode_value(_type_of(record), record.value)
        if not isinstance(group, ClassicGroup) or not group.members:
            continue
        owned = [decode_assignment(member.assignment) for member in group.members]
        assert all(not isinstance(one, Undecodable) for one in owned)
        numbers = [
            number for one in owned if not isinstance(one, Undecodable) for at in one for number in at.partitions
        ]
        assert len(numbers) == len(set(numbers))
        owners += sorted(numbers) == [0, 1]
    assert owners >= 3


def _type_of(record: BatchRecord) -> int:
    key = decode_key(record.key or b"")
    assert isinstance(key, GroupRecordKey)
    return key.type


@given(types.flatmap(lambda each: values(KEY.layouts[each], each).map(lambda key: (each, key))))
def test_every_key_survives_encoding_and_decoding(typed: tuple[RecordType, Any]) -> None:
    record_type, key = typed
    named = GroupRecordKey(key.group, key.topic, key.partition, key.member_id, key.pattern, int(record_type))
    assert decode_key(encode_key(named)) == named


@given(versioned_values)
def test_every_value_survives_encoding_and_decoding(versioned: tuple[RecordType, int, Any]) -> None:
    record_type, version, value = versioned
    assert decode_value(record_type, encode_value(record_type, value, version)) == value


@given(versioned_values, st.data())
def test_truncated_value_is_malformed(versioned: tuple[RecordType, int, Any], data: st.DataObject) -> None:
    record_type, version, value = versioned
    whole = encode_value(record_type, value, version)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert isinstance(decode_value(record_type, cut), Undecodable)


@given(types, st.binary(max_size=80))
def test_no_bytes_make_the_decoder_raise(record_type: RecordType, data: bytes) -> None:
    assert isinstance(decode_key(data), GroupRecordKey | Undecodable)
    decode_value(record_type, data)
    assert isinstance(decode_assignment(data), tuple | Undecodable)


@pytest.mark.parametrize("number", [9, 18, 24, -1])
def test_unknown_types_are_reported(number: int) -> None:
    data = number.to_bytes(2, "big", signed=True) + b"\0\1g"
    assert decode_key(data) == Undecodable(f"unknown key version {number}", data)


def test_unknown_version_is_reported() -> None:
    data = b"\0\5" + bytes(40)
    assert decode_value(RecordType.OFFSET_COMMIT, data) == Undecodable("unknown value version 5", data)


def test_unknown_tag_is_skipped() -> None:
    data = encode_value(RecordType.GROUP_EPOCH, GroupEpoch(3), 0)
    # One tagged field: number 9, two bytes.
    assert decode_value(RecordType.GROUP_EPOCH, data[:-1] + b"\1\x09\2ab") == GroupEpoch(3)


def test_assignment_of_a_newer_version_is_read_by_what_is_known() -> None:
    data = b"\0\x09" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2\0\0\0\0\0\0\0\1" + b"\xff\xff\xff\xff" + b"more"
    assert decode_assignment(data) == (TopicPartitions("t", (0, 1)),)
    assert decode_assignment(b"") == ()
