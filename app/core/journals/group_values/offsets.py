"""Offset commits, key types 0 and 1: the position of any group in a partition.

Source: Kafka, group-coordinator/src/main/resources/common/message/{Legacy,}OffsetCommitValue.json (a test compares).
"""

from __future__ import annotations

import msgspec

from app.core.journals.wire_format import INT32, INT64, STRING, UUID
from app.core.journals.wire_message import Field, Layout, message_of

NO_TOPIC_ID = "A" * 22


class OffsetCommit(msgspec.Struct, frozen=True, gc=False):
    """A committed offset of a group: `offset` is that of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int = -1
    topic_id: str = NO_TOPIC_ID


COMMIT = message_of(
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
