"""Classic groups, key type 2, and the assignments of those with protocol type "consumer".

Source: Kafka, group-coordinator/src/main/resources/common/message/GroupMetadataValue.json (a test compares) and
clients/src/main/resources/common/message/ConsumerProtocolAssignment.json.
"""

from __future__ import annotations

import struct

import msgspec

from app.core.journals.transaction_state import TopicPartitions
from app.core.journals.wire_format import BYTES, INT32, INT64, MALFORMED, NULLABLE_BYTES, NULLABLE_STRING, STRING, Array
from app.core.journals.wire_message import Field, Layout, Undecodable, message_of


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


class _Assignment(msgspec.Struct, frozen=True):
    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


_MEMBER = Layout(
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
GROUP = message_of(
    Layout(
        ClassicGroup,
        (
            Field("protocol_type", STRING),
            Field("generation", INT32),
            Field("protocol", NULLABLE_STRING),
            Field("leader", NULLABLE_STRING),
            Field("state_changed_ms", INT64, since=2, kafka="currentStateTimestamp"),
            Field("members", Array(_MEMBER)),
        ),
    ),
    last_version=4,
    flexible_since=4,
)
# A newer version has the same beginning, and is read as the newest known one, as in Kafka.
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


def decode_assignment(data: bytes) -> tuple[TopicPartitions, ...] | Undecodable:
    """Decode the assignment of a classic member of protocol type "consumer"; empty bytes are an empty assignment."""
    if not data:
        return ()
    try:
        _ASSIGNMENT_VERSION.unpack_from(data)
        return _read_assignment(data, _ASSIGNMENT_VERSION.size)[0].partitions
    except MALFORMED as error:
        return Undecodable(f"malformed assignment: {error}", data)
