"""Records of share groups (KIP-932): members and assignments, key types 10 to 15.

A share group commits no offsets: the delivered and acknowledged records are in `__share_group_state`, which is
not read. Target assignments and their epoch are those of KIP-848.
Source: Kafka, group-coordinator/src/main/resources/common/message/ShareGroup*Value.json (a test compares).
"""

from __future__ import annotations

import msgspec

from app.core.journals.group_values.consumer import ConsumerMember, CurrentAssignment, EpochedPartitions, MemberState
from app.core.journals.wire_format import INT32, INT64, NULLABLE_STRING, STRING, UUID, Array, Enumeration
from app.core.journals.wire_message import Field, Layout


class ShareGroupEpoch(msgspec.Struct, frozen=True):
    epoch: int
    metadata_hash: int


class ShareMember(msgspec.Struct, frozen=True):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]


class SharePartitions(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: tuple[int, ...]


class ShareCurrentAssignment(msgspec.Struct, frozen=True):
    """A partition may be assigned to several members at once."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: tuple[SharePartitions, ...]


class ShareTopicPartitions(msgspec.Struct, frozen=True):
    topic_id: str
    topic: str
    partitions: tuple[int, ...]


class ShareTopic(msgspec.Struct, frozen=True):
    topic_id: str
    topic: str


class ShareStatePartitions(msgspec.Struct, frozen=True):
    """The partitions for which `__share_group_state` has a state of the group."""

    initializing: tuple[ShareTopicPartitions, ...]
    initialized: tuple[ShareTopicPartitions, ...]
    deleting: tuple[ShareTopic, ...]

    @property
    def topic_names(self) -> dict[str, str]:
        """By topic id."""
        return {one.topic_id: one.topic for one in (*self.initializing, *self.initialized, *self.deleting)}


def member_of(value: ShareMember) -> ConsumerMember:
    """As a member of a KIP-848 group, which it resembles."""
    return ConsumerMember(
        instance_id=None,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topics=value.subscribed_topics,
        subscribed_pattern=None,
        rebalance_timeout_ms=-1,
        server_assignor=None,
    )


def current_of(value: ShareCurrentAssignment) -> CurrentAssignment:
    """As that of a KIP-848 member."""
    return CurrentAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=tuple(EpochedPartitions(one.topic_id, one.partitions) for one in value.assigned),
        pending_revocation=(),
    )


_TOPIC_ID = Field("topic_id", UUID)
_TOPIC = Field("topic", STRING, kafka="topicName")
_PARTITIONS = Field("partitions", Array(INT32))
_TOPIC_PARTITIONS = Array(Layout(ShareTopicPartitions, (_TOPIC_ID, _TOPIC, _PARTITIONS)))

GROUP_EPOCH = Layout(ShareGroupEpoch, (Field("epoch", INT32), Field("metadata_hash", INT64)))
MEMBER = Layout(
    ShareMember,
    (
        Field("rack_id", NULLABLE_STRING),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("subscribed_topics", Array(STRING), kafka="subscribedTopicNames"),
    ),
)
CURRENT_ASSIGNMENT = Layout(
    ShareCurrentAssignment,
    (
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", Enumeration(MemberState, "member state")),
        Field("assigned", Array(Layout(SharePartitions, (_TOPIC_ID, _PARTITIONS))), kafka="assignedPartitions"),
    ),
)
STATE_PARTITIONS = Layout(
    ShareStatePartitions,
    (
        Field("initializing", _TOPIC_PARTITIONS, kafka="initializingTopics"),
        Field("initialized", _TOPIC_PARTITIONS, kafka="initializedTopics"),
        Field("deleting", Array(Layout(ShareTopic, (_TOPIC_ID, _TOPIC))), kafka="deletingTopics"),
    ),
)
