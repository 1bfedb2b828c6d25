"""Decode and encode the records of the group coordinator in `__consumer_offsets`.

A key begins with its type, which determines the record's subject; a null value is a tombstone. `group_values` has the
values. Unreadable bytes give an `Undecodable`, never an exception.
Source: Kafka, group-coordinator/src/main/resources/common/message/*{Key,Value}.json (tests compare with 3.9 and 4.3).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from app.core.journals.group_values import classic, consumer, offsets, share, streams
from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.group_values.consumer import (
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    Pattern,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.group_values.share import (
    ShareCurrentAssignment,
    ShareGroupEpoch,
    ShareMember,
    ShareStatePartitions,
)
from app.core.journals.group_values.streams import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMember,
    StreamsTargetAssignment,
    StreamsTopology,
)
from app.core.journals.wire_format import INT32, STRING, TOPIC_NAME
from app.core.journals.wire_message import Field, Layout, Undecodable, WireMessage, message_of

T = TypeVar("T", bound=msgspec.Struct)

TOPIC = "__consumer_offsets"


class RecordType(IntEnum):
    """The first number of a key."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    CLASSIC_GROUP = 2
    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_ASSIGNMENT_EPOCH = 6
    TARGET_ASSIGNMENT = 7
    CURRENT_ASSIGNMENT = 8
    SHARE_MEMBER = 10
    SHARE_GROUP_EPOCH = 11
    SHARE_TARGET_ASSIGNMENT_EPOCH = 12
    SHARE_TARGET_ASSIGNMENT = 13
    SHARE_CURRENT_ASSIGNMENT = 14
    SHARE_STATE_PARTITIONS = 15
    PATTERN = 16
    STREAMS_GROUP_EPOCH = 17
    STREAMS_MEMBER = 19
    STREAMS_TARGET_ASSIGNMENT_EPOCH = 20
    STREAMS_TARGET_ASSIGNMENT = 21
    STREAMS_CURRENT_ASSIGNMENT = 22
    STREAMS_TOPOLOGY = 23


class GroupRecordKey(msgspec.Struct, frozen=True, gc=False):
    """The subject of a record. Offset commits have topic and partition, a member's records (5, 7, 8; 10, 13, 14; 19,
    21, 22) its id, 16 a pattern.
    """

    group: str
    topic: str = ""
    partition: int = -1
    member_id: str = ""
    pattern: str = ""
    type: int = -1


GroupRecordValue = (
    OffsetCommit
    | ClassicGroup
    | GroupEpoch
    | PartitionMetadata
    | ConsumerMember
    | TargetAssignmentEpoch
    | TargetAssignment
    | CurrentAssignment
    | Pattern
    | ShareGroupEpoch
    | ShareMember
    | ShareCurrentAssignment
    | ShareStatePartitions
    | StreamsGroupEpoch
    | StreamsMember
    | StreamsTargetAssignment
    | StreamsCurrentAssignment
    | StreamsTopology
)


def _key(*fields: Field) -> Layout[GroupRecordKey]:
    return Layout(GroupRecordKey, (Field("group", STRING, kafka="groupId"), *fields), stamp="type")


_OFFSET_KEY = Layout(
    GroupRecordKey, (Field("group", STRING), Field("topic", TOPIC_NAME), Field("partition", INT32)), stamp="type"
)
_MEMBER_KEY = _key(Field("member_id", STRING))
KEY = WireMessage[GroupRecordKey](
    {
        RecordType.LEGACY_OFFSET_COMMIT: _OFFSET_KEY,
        RecordType.OFFSET_COMMIT: _OFFSET_KEY,
        RecordType.CLASSIC_GROUP: Layout(GroupRecordKey, (Field("group", STRING),), stamp="type"),
        RecordType.GROUP_EPOCH: _key(),
        RecordType.PARTITION_METADATA: _key(),
        RecordType.MEMBER: _MEMBER_KEY,
        RecordType.TARGET_ASSIGNMENT_EPOCH: _key(),
        RecordType.TARGET_ASSIGNMENT: _MEMBER_KEY,
        RecordType.CURRENT_ASSIGNMENT: _MEMBER_KEY,
        RecordType.SHARE_MEMBER: _MEMBER_KEY,
        RecordType.SHARE_GROUP_EPOCH: _key(),
        RecordType.SHARE_TARGET_ASSIGNMENT_EPOCH: _key(),
        RecordType.SHARE_TARGET_ASSIGNMENT: _MEMBER_KEY,
        RecordType.SHARE_CURRENT_ASSIGNMENT: _MEMBER_KEY,
        RecordType.SHARE_STATE_PARTITIONS: _key(),
        RecordType.PATTERN: _key(Field("pattern", STRING, kafka="regularExpression")),
        RecordType.STREAMS_GROUP_EPOCH: _key(),
        RecordType.STREAMS_MEMBER: _MEMBER_KEY,
        RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH: _key(),
        RecordType.STREAMS_TARGET_ASSIGNMENT: _MEMBER_KEY,
        RecordType.STREAMS_CURRENT_ASSIGNMENT: _MEMBER_KEY,
        RecordType.STREAMS_TOPOLOGY: _key(),
    }
)


def _flexible(layout: Layout[T]) -> WireMessage[T]:
    """A message of KIP-848, KIP-932 or KIP-1071: one version, compact from the beginning."""
    return message_of(layout, flexible_since=0)


VALUES: dict[int, WireMessage[Any]] = {
    # Type 0 was written in version 0 only, which is the same in both definitions.
    RecordType.LEGACY_OFFSET_COMMIT: offsets.COMMIT,
    RecordType.OFFSET_COMMIT: offsets.COMMIT,
    RecordType.CLASSIC_GROUP: classic.GROUP,
    RecordType.GROUP_EPOCH: _flexible(consumer.GROUP_EPOCH),
    RecordType.PARTITION_METADATA: _flexible(consumer.PARTITION_METADATA),
    RecordType.MEMBER: _flexible(consumer.MEMBER),
    RecordType.TARGET_ASSIGNMENT_EPOCH: _flexible(consumer.TARGET_ASSIGNMENT_EPOCH),
    RecordType.TARGET_ASSIGNMENT: _flexible(consumer.TARGET_ASSIGNMENT),
    RecordType.CURRENT_ASSIGNMENT: _flexible(consumer.CURRENT_ASSIGNMENT),
    RecordType.SHARE_MEMBER: _flexible(share.MEMBER),
    RecordType.SHARE_GROUP_EPOCH: _flexible(share.GROUP_EPOCH),
    RecordType.SHARE_TARGET_ASSIGNMENT_EPOCH: _flexible(consumer.TARGET_ASSIGNMENT_EPOCH),
    RecordType.SHARE_TARGET_ASSIGNMENT: _flexible(consumer.TARGET_ASSIGNMENT),
    RecordType.SHARE_CURRENT_ASSIGNMENT: _flexible(share.CURRENT_ASSIGNMENT),
    RecordType.SHARE_STATE_PARTITIONS: _flexible(share.STATE_PARTITIONS),
    RecordType.PATTERN: _flexible(consumer.PATTERN),
    RecordType.STREAMS_GROUP_EPOCH: _flexible(streams.GROUP_EPOCH),
    RecordType.STREAMS_MEMBER: _flexible(streams.MEMBER),
    RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH: _flexible(consumer.TARGET_ASSIGNMENT_EPOCH),
    RecordType.STREAMS_TARGET_ASSIGNMENT: _flexible(streams.TARGET_ASSIGNMENT),
    RecordType.STREAMS_CURRENT_ASSIGNMENT: _flexible(streams.CURRENT_ASSIGNMENT),
    RecordType.STREAMS_TOPOLOGY: _flexible(streams.TOPOLOGY),
}


def decode_key(data: bytes) -> GroupRecordKey | Undecodable:
    """Return the subject of a record; `Undecodable` for unknown types."""
    return KEY.decode(data, "key")


def encode_key(key: GroupRecordKey) -> bytes:
    return KEY.encode(key, key.type)


def decode_value(record_type: int, data: bytes | None) -> GroupRecordValue | Undecodable | None:
    """The value of a record whose key has this type; None for a tombstone."""
    return None if data is None else VALUES[record_type].decode(data)


def encode_value(record_type: int, value: GroupRecordValue, version: int = 0) -> bytes:
    return VALUES[record_type].encode(value, version)
