"""What the group coordinator writes into `__consumer_offsets`: bytes to records, and back.

A key begins with its type, which says what the record is about; a null value is a tombstone. Types 0 and 1 are offset
commits, 2 is a classic group, 3 to 8 and 16 belong to KIP-848 groups, 17 to 23 to Streams groups. Those of share groups
are not read. Whatever cannot be read is an `Undecodable`, never an exception.
Source: Kafka, group-coordinator/src/main/resources/common/message/*{Key,Value}.json (tests compare with 3.9 and 4.3),
and clients/src/main/resources/common/message/ConsumerProtocolAssignment.json.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from app.domain.journals import streams_records
from app.domain.journals.streams_records import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMember,
    StreamsTargetAssignment,
    StreamsTopology,
)
from app.domain.journals.transaction_state import TopicPartitions
from app.domain.journals.wire_format import (
    BYTES,
    INT32,
    INT64,
    MALFORMED,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    STRING,
    UUID,
    Array,
    Enumeration,
)
from app.domain.journals.wire_message import Field, Layout, Message, NullableStructure, Undecodable, message_of

T = TypeVar("T", bound=msgspec.Struct)

TOPIC = "__consumer_offsets"
NO_TOPIC_ID = "A" * 22


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
    PATTERN = 16
    STREAMS_GROUP_EPOCH = 17
    STREAMS_MEMBER = 19
    STREAMS_TARGET_ASSIGNMENT_EPOCH = 20
    STREAMS_TARGET_ASSIGNMENT = 21
    STREAMS_CURRENT_ASSIGNMENT = 22
    STREAMS_TOPOLOGY = 23


class GroupRecordKey(msgspec.Struct, frozen=True, gc=False):
    """What a record is about. Offset commits have topic and partition, a member's (5, 7, 8; 19, 21, 22) its id, 16 a
    pattern.
    """

    group: str
    topic: str = ""
    partition: int = -1
    member_id: str = ""
    pattern: str = ""
    type: int = -1


class OffsetCommit(msgspec.Struct, frozen=True, gc=False):
    """A position that a group stored, `offset` being that of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int = -1
    topic_id: str = NO_TOPIC_ID


class ClassicMember(msgspec.Struct, frozen=True):
    """`subscription` and `assignment` belong to the group's protocol type; see `decode_assignment`."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int = -1
    subscription: bytes = b""
    assignment: bytes = b""


class ClassicGroup(msgspec.Struct, frozen=True):
    """A classic group as of a finished rebalance. Without members it is empty, and `protocol` and `leader` are None."""

    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    state_changed_ms: int = -1
    members: tuple[ClassicMember, ...] = ()


class GroupEpoch(msgspec.Struct, frozen=True):
    epoch: int
    metadata_hash: int = 0


class PartitionRacks(msgspec.Struct, frozen=True):
    partition: int
    racks: tuple[str, ...]


class TopicMetadata(msgspec.Struct, frozen=True):
    topic_id: str
    topic: str
    partition_count: int
    partitions: tuple[PartitionRacks, ...]


class PartitionMetadata(msgspec.Struct, frozen=True):
    """The subscribed topics as the coordinator knew them; brokers before 4.1 write it."""

    topics: tuple[TopicMetadata, ...]


class ClassicProtocol(msgspec.Struct, frozen=True):
    name: str
    metadata: bytes


class ClassicMemberMetadata(msgspec.Struct, frozen=True):
    """Of a member that speaks the classic protocol to a KIP-848 group."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class Member(msgspec.Struct, frozen=True):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_pattern: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = None


class TargetAssignmentEpoch(msgspec.Struct, frozen=True):
    assignment_epoch: int
    assigned_ms: int = 0


class TopicIdPartitions(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: tuple[int, ...]


class TargetAssignment(msgspec.Struct, frozen=True):
    """What the member shall own, of the target assignment's epoch."""

    partitions: tuple[TopicIdPartitions, ...]


class MemberState(IntEnum):
    """STABLE ─▶ UNREVOKED_PARTITIONS ─▶ UNRELEASED_PARTITIONS ─▶ STABLE, as the member follows a new target.

    UNREVOKED_PARTITIONS: it has partitions to give up first. UNRELEASED_PARTITIONS: it waits for others to do so.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class EpochedPartitions(msgspec.Struct, frozen=True):
    """`epochs`, from 4.3 on: the member epoch at which each of the partitions was assigned."""

    topic_id: str
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = None


class CurrentAssignment(msgspec.Struct, frozen=True):
    """What the member owns now, and the epoch that its next heartbeat and its commits must have."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: tuple[EpochedPartitions, ...]
    pending_revocation: tuple[EpochedPartitions, ...]


class Pattern(msgspec.Struct, frozen=True):
    """The topics that a regular expression stood for, at an offset of the metadata log."""

    topics: tuple[str, ...]
    metadata_version: int
    resolved_ms: int


GroupRecordValue = (
    OffsetCommit
    | ClassicGroup
    | GroupEpoch
    | PartitionMetadata
    | Member
    | TargetAssignmentEpoch
    | TargetAssignment
    | CurrentAssignment
    | Pattern
    | StreamsGroupEpoch
    | StreamsMember
    | StreamsTargetAssignment
    | StreamsCurrentAssignment
    | StreamsTopology
)


class _Assignment(msgspec.Struct, frozen=True):
    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


def _key(*fields: Field) -> Layout[GroupRecordKey]:
    return Layout(GroupRecordKey, (Field("group", STRING, kafka="groupId"), *fields), stamp="type")


_OFFSET_KEY = Layout(
    GroupRecordKey, (Field("group", STRING), Field("topic", STRING), Field("partition", INT32)), stamp="type"
)
_MEMBER_KEY = _key(Field("member_id", STRING))
KEY = Message[GroupRecordKey](
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
        RecordType.PATTERN: _key(Field("pattern", STRING, kafka="regularExpression")),
        RecordType.STREAMS_GROUP_EPOCH: _key(),
        RecordType.STREAMS_MEMBER: _MEMBER_KEY,
        RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH: _key(),
        RecordType.STREAMS_TARGET_ASSIGNMENT: _MEMBER_KEY,
        RecordType.STREAMS_CURRENT_ASSIGNMENT: _MEMBER_KEY,
        RecordType.STREAMS_TOPOLOGY: _key(),
    }
)

_OFFSET_COMMIT = message_of(
    Layout(
        OffsetCommit,
        (
            Field("offset", INT64),
            Field("leader_epoch", INT32, since=3),
            Field("metadata", STRING),
            Field("commit_ms", INT64, kafka="commitTimestamp"),
            Field("expire_ms", INT64, since=1, until=1, kafka="expireTimestamp"),
            Field("topic_id", UUID, since=4, tag=0),
        ),
    ),
    last_version=4,
    flexible_since=4,
)
_CLASSIC_MEMBER = Layout(
    ClassicMember,
    (
        Field("member_id", STRING),
        Field("instance_id", NULLABLE_STRING, since=3, kafka="groupInstanceId"),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("rebalance_timeout_ms", INT32, since=1, kafka="rebalanceTimeout"),
        Field("session_timeout_ms", INT32, kafka="sessionTimeout"),
        Field("subscription", BYTES),
        Field("assignment", BYTES),
    ),
)
_CLASSIC_GROUP = message_of(
    Layout(
        ClassicGroup,
        (
            Field("protocol_type", STRING),
            Field("generation", INT32),
            Field("protocol", NULLABLE_STRING),
            Field("leader", NULLABLE_STRING),
            Field("state_changed_ms", INT64, since=2, kafka="currentStateTimestamp"),
            Field("members", Array(_CLASSIC_MEMBER)),
        ),
    ),
    last_version=4,
    flexible_since=4,
)
_TOPIC_METADATA = Layout(
    TopicMetadata,
    (
        Field("topic_id", UUID),
        Field("topic", STRING, kafka="topicName"),
        Field("partition_count", INT32, kafka="numPartitions"),
        Field(
            "partitions",
            Array(Layout(PartitionRacks, (Field("partition", INT32), Field("racks", Array(STRING))))),
            kafka="partitionMetadata",
        ),
    ),
)
_CLASSIC_METADATA = Layout(
    ClassicMemberMetadata,
    (
        Field("session_timeout_ms", INT32),
        Field(
            "supported_protocols",
            Array(Layout(ClassicProtocol, (Field("name", STRING), Field("metadata", BYTES)))),
        ),
    ),
)
_MEMBER = Layout(
    Member,
    (
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("subscribed_topics", Array(STRING), kafka="subscribedTopicNames"),
        Field("subscribed_pattern", NULLABLE_STRING, kafka="subscribedTopicRegex"),
        Field("rebalance_timeout_ms", INT32),
        Field("server_assignor", NULLABLE_STRING),
        Field("classic", NullableStructure(_CLASSIC_METADATA, null=b"\0"), tag=0, kafka="classicMemberMetadata"),
    ),
)
_TOPIC_ID_PARTITIONS = Layout(TopicIdPartitions, (Field("topic_id", UUID), Field("partitions", Array(INT32))))
_EPOCHED_PARTITIONS = Layout(
    EpochedPartitions,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(INT32)),
        Field("epochs", Array(INT32, is_nullable=True), tag=0, kafka="assignmentEpochs"),
    ),
)
_CURRENT_ASSIGNMENT = Layout(
    CurrentAssignment,
    (
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", Enumeration(MemberState, "member state")),
        Field("assigned", Array(_EPOCHED_PARTITIONS), kafka="assignedPartitions"),
        Field("pending_revocation", Array(_EPOCHED_PARTITIONS), kafka="partitionsPendingRevocation"),
    ),
)


_TARGET_ASSIGNMENT_EPOCH = Layout(
    TargetAssignmentEpoch,
    (Field("assignment_epoch", INT32), Field("assigned_ms", INT64, tag=0, kafka="assignmentTimestamp")),
)


def _flexible(layout: Layout[T]) -> Message[T]:
    """Of KIP-848 and KIP-1071: one version, compact from the beginning."""
    return message_of(layout, flexible_since=0)


VALUES: dict[int, Message[Any]] = {
    # Of type 0 nothing but version 0 was written, which is the same in both definitions.
    RecordType.LEGACY_OFFSET_COMMIT: _OFFSET_COMMIT,
    RecordType.OFFSET_COMMIT: _OFFSET_COMMIT,
    RecordType.CLASSIC_GROUP: _CLASSIC_GROUP,
    RecordType.GROUP_EPOCH: _flexible(
        Layout(GroupEpoch, (Field("epoch", INT32), Field("metadata_hash", INT64, tag=0)))
    ),
    RecordType.PARTITION_METADATA: _flexible(Layout(PartitionMetadata, (Field("topics", Array(_TOPIC_METADATA)),))),
    RecordType.MEMBER: _flexible(_MEMBER),
    RecordType.TARGET_ASSIGNMENT_EPOCH: _flexible(_TARGET_ASSIGNMENT_EPOCH),
    RecordType.TARGET_ASSIGNMENT: _flexible(
        Layout(TargetAssignment, (Field("partitions", Array(_TOPIC_ID_PARTITIONS), kafka="topicPartitions"),))
    ),
    RecordType.CURRENT_ASSIGNMENT: _flexible(_CURRENT_ASSIGNMENT),
    RecordType.PATTERN: _flexible(
        Layout(
            Pattern,
            (
                Field("topics", Array(STRING)),
                Field("metadata_version", INT64, kafka="version"),
                Field("resolved_ms", INT64, kafka="timestamp"),
            ),
        )
    ),
    RecordType.STREAMS_GROUP_EPOCH: _flexible(streams_records.GROUP_EPOCH),
    RecordType.STREAMS_MEMBER: _flexible(streams_records.MEMBER),
    RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH: _flexible(_TARGET_ASSIGNMENT_EPOCH),
    RecordType.STREAMS_TARGET_ASSIGNMENT: _flexible(streams_records.TARGET_ASSIGNMENT),
    RecordType.STREAMS_CURRENT_ASSIGNMENT: _flexible(streams_records.CURRENT_ASSIGNMENT),
    RecordType.STREAMS_TOPOLOGY: _flexible(streams_records.TOPOLOGY),
}
# A newer version has the same beginning, and is read as the newest that we know: so does Kafka.
_ASSIGNMENT = Layout(
    _Assignment,
    (
        Field(
            "partitions",
            Array(Layout(TopicPartitions, (Field("topic", STRING), Field("partitions", Array(INT32))))),
            kafka="assignedPartitions",
        ),
        Field("user_data", NULLABLE_BYTES),
    ),
)
_ASSIGNMENT_VERSION = struct.Struct(">h")
_read_assignment = _ASSIGNMENT.reader(0, is_flexible=False)


def decode_key(data: bytes) -> GroupRecordKey | Undecodable:
    """What a record is about; `Undecodable` for the types of share groups and for those of the future."""
    return KEY.decode(data, "key")


def encode_key(key: GroupRecordKey) -> bytes:
    return KEY.encode(key, key.type)


def decode_value(record_type: int, data: bytes | None) -> GroupRecordValue | Undecodable | None:
    """The value of a record whose key has this type; None for a tombstone."""
    return None if data is None else VALUES[record_type].decode(data)


def encode_value(record_type: int, value: GroupRecordValue, version: int = 0) -> bytes:
    return VALUES[record_type].encode(value, version)


def decode_assignment(data: bytes) -> tuple[TopicPartitions, ...] | Undecodable:
    """What a classic member of protocol type "consumer" was assigned; empty bytes are an empty assignment."""
    if not data:
        return ()
    try:
        _ASSIGNMENT_VERSION.unpack_from(data)
        return _read_assignment(data, _ASSIGNMENT_VERSION.size)[0].partitions
    except MALFORMED as error:
        return Undecodable(f"malformed assignment: {error}", data)
