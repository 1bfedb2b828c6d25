"""Consumer groups of KIP-848, key types 3 to 8 and 16.

Source: Kafka, group-coordinator/src/main/resources/common/message/ConsumerGroup*Value.json (a test compares).
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from app.core.journals.wire_format import BYTES, INT32, INT64, NULLABLE_STRING, STRING, UUID, Array, Enumeration
from app.core.journals.wire_message import Field, Layout, NullableStructure


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
    """Metadata of a member that uses the classic protocol in a KIP-848 group."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerMember(msgspec.Struct, frozen=True):
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
    """The member's target assignment, at the target assignment's epoch."""

    partitions: tuple[TopicIdPartitions, ...]


class MemberState(IntEnum):
    """STABLE ─▶ UNREVOKED_PARTITIONS ─▶ UNRELEASED_PARTITIONS ─▶ STABLE, as the member follows a new target.

    UNREVOKED_PARTITIONS: it must revoke partitions first. UNRELEASED_PARTITIONS: it waits for others to do so.
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
    """The member's current assignment, and the epoch that its next heartbeat and its commits must have."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: tuple[EpochedPartitions, ...]
    pending_revocation: tuple[EpochedPartitions, ...]


class Pattern(msgspec.Struct, frozen=True):
    """The topics that a regular expression matched, at an offset of the metadata log."""

    topics: tuple[str, ...]
    metadata_version: int
    resolved_ms: int


GROUP_EPOCH = Layout(GroupEpoch, (Field("epoch", INT32), Field("metadata_hash", INT64, tag=0)))
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
PARTITION_METADATA = Layout(PartitionMetadata, (Field("topics", Array(_TOPIC_METADATA)),))
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
MEMBER = Layout(
    ConsumerMember,
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
TARGET_ASSIGNMENT_EPOCH = Layout(
    TargetAssignmentEpoch,
    (Field("assignment_epoch", INT32), Field("assigned_ms", INT64, tag=0, kafka="assignmentTimestamp")),
)
TARGET_ASSIGNMENT = Layout(
    TargetAssignment, (Field("partitions", Array(_TOPIC_ID_PARTITIONS), kafka="topicPartitions"),)
)
_EPOCHED_PARTITIONS = Layout(
    EpochedPartitions,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(INT32)),
        Field("epochs", Array(INT32, is_nullable=True), tag=0, kafka="assignmentEpochs"),
    ),
)
CURRENT_ASSIGNMENT = Layout(
    CurrentAssignment,
    (
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", Enumeration(MemberState, "member state")),
        Field("assigned", Array(_EPOCHED_PARTITIONS), kafka="assignedPartitions"),
        Field("pending_revocation", Array(_EPOCHED_PARTITIONS), kafka="partitionsPendingRevocation"),
    ),
)
PATTERN = Layout(
    Pattern,
    (
        Field("topics", Array(STRING)),
        Field("metadata_version", INT64, kafka="version"),
        Field("resolved_ms", INT64, kafka="timestamp"),
    ),
)
