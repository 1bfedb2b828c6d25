"""Records of Streams groups (KIP-1071): Kafka Streams with `group.protocol=streams`.

Members own tasks: a partition number of a subtopology, which is that partition of each topic that it reads.
Source: Kafka, group-coordinator/src/main/resources/common/message/StreamsGroup*{Key,Value}.json (a test compares).
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from app.core.journals.wire_format import INT16, INT32, INT64, NULLABLE_STRING, STRING, UINT16, Array, Enumeration
from app.core.journals.wire_message import Field, Layout, NullableStructure


class KeyValue(msgspec.Struct, frozen=True):
    key: str
    value: str


class StreamsGroupEpoch(msgspec.Struct, frozen=True):
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = -1
    assignment_configs: tuple[KeyValue, ...] | None = None


class Endpoint(msgspec.Struct, frozen=True):
    host: str
    port: int


class StreamsMember(msgspec.Struct, frozen=True):
    """`process_id`: in the transactional ids of `exactly_once_v2` as well."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...]


class Tasks(msgspec.Struct, frozen=True):
    subtopology: str
    partitions: tuple[int, ...]


class StreamsTargetAssignment(msgspec.Struct, frozen=True):
    active: tuple[Tasks, ...]
    standby: tuple[Tasks, ...]
    warmup: tuple[Tasks, ...]


class EpochedTasks(msgspec.Struct, frozen=True):
    """`epochs`: of the assignment of each; of active tasks only."""

    subtopology: str
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = None


class StreamsMemberState(IntEnum):
    """The states of a KIP-848 member, each with the next number."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class StreamsCurrentAssignment(msgspec.Struct, frozen=True):
    """The member's current assignment, and the epoch that its next heartbeat and its commits must have."""

    member_epoch: int
    previous_member_epoch: int
    state: StreamsMemberState
    active: tuple[EpochedTasks, ...]
    standby: tuple[EpochedTasks, ...]
    warmup: tuple[EpochedTasks, ...]
    active_pending_revocation: tuple[EpochedTasks, ...]
    standby_pending_revocation: tuple[EpochedTasks, ...]
    warmup_pending_revocation: tuple[EpochedTasks, ...]


class InternalTopic(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    replication_factor: int
    configs: tuple[KeyValue, ...]


class CopartitionGroup(msgspec.Struct, frozen=True):
    """Indices in the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_patterns: tuple[int, ...]
    repartition_sources: tuple[int, ...]


class Subtopology(msgspec.Struct, frozen=True):
    subtopology: str
    source_topics: tuple[str, ...]
    source_patterns: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def read_topics(self) -> tuple[str, ...]:
        """The topics that it reads by name; the topics of its patterns are not recorded."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))


class StreamsTopology(msgspec.Struct, frozen=True):
    epoch: int
    subtopologies: tuple[Subtopology, ...]


_KEY_VALUES = Array(Layout(KeyValue, (Field("key", STRING), Field("value", STRING))))
_SUBTOPOLOGY = Field("subtopology", STRING, kafka="subtopologyId")
_PARTITIONS = Field("partitions", Array(INT32))
_TASKS = Array(Layout(Tasks, (_SUBTOPOLOGY, _PARTITIONS)))
_EPOCHED_TASKS = Array(
    Layout(
        EpochedTasks,
        (
            _SUBTOPOLOGY,
            _PARTITIONS,
            Field("epochs", Array(INT32, is_nullable=True), tag=0, kafka="assignmentEpochs"),
        ),
    )
)
_INTERNAL_TOPICS = Array(
    Layout(
        InternalTopic,
        (
            Field("name", STRING),
            Field("partitions", INT32),
            Field("replication_factor", INT16),
            Field("configs", _KEY_VALUES, kafka="topicConfigs"),
        ),
    )
)

GROUP_EPOCH = Layout(
    StreamsGroupEpoch,
    (
        Field("epoch", INT32),
        Field("metadata_hash", INT64),
        Field("validated_topology_epoch", INT32, tag=0),
        Field("assignment_configs", Array(_KEY_VALUES.of, is_nullable=True), tag=1, kafka="lastAssignmentConfigs"),
    ),
)
MEMBER = Layout(
    StreamsMember,
    (
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("rebalance_timeout_ms", INT32),
        Field("topology_epoch", INT32),
        Field("process_id", STRING),
        Field("user_endpoint", NullableStructure(Layout(Endpoint, (Field("host", STRING), Field("port", UINT16))))),
        Field("client_tags", _KEY_VALUES),
    ),
)
TARGET_ASSIGNMENT = Layout(
    StreamsTargetAssignment,
    (
        Field("active", _TASKS, kafka="activeTasks"),
        Field("standby", _TASKS, kafka="standbyTasks"),
        Field("warmup", _TASKS, kafka="warmupTasks"),
    ),
)
CURRENT_ASSIGNMENT = Layout(
    StreamsCurrentAssignment,
    (
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", Enumeration(StreamsMemberState, "member state")),
        Field("active", _EPOCHED_TASKS, kafka="activeTasks"),
        Field("standby", _EPOCHED_TASKS, kafka="standbyTasks"),
        Field("warmup", _EPOCHED_TASKS, kafka="warmupTasks"),
        Field("active_pending_revocation", _EPOCHED_TASKS, kafka="activeTasksPendingRevocation"),
        Field("standby_pending_revocation", _EPOCHED_TASKS, kafka="standbyTasksPendingRevocation"),
        Field("warmup_pending_revocation", _EPOCHED_TASKS, kafka="warmupTasksPendingRevocation"),
    ),
)
TOPOLOGY = Layout(
    StreamsTopology,
    (
        Field("epoch", INT32),
        Field(
            "subtopologies",
            Array(
                Layout(
                    Subtopology,
                    (
                        _SUBTOPOLOGY,
                        Field("source_topics", Array(STRING)),
                        Field("source_patterns", Array(STRING), kafka="sourceTopicRegex"),
                        Field("changelogs", _INTERNAL_TOPICS, kafka="stateChangelogTopics"),
                        Field("repartition_sinks", Array(STRING), kafka="repartitionSinkTopics"),
                        Field("repartition_sources", _INTERNAL_TOPICS, kafka="repartitionSourceTopics"),
                        Field(
                            "copartition_groups",
                            Array(
                                Layout(
                                    CopartitionGroup,
                                    (
                                        Field("source_topics", Array(INT16)),
                                        Field("source_patterns", Array(INT16), kafka="sourceTopicRegex"),
                                        Field("repartition_sources", Array(INT16), kafka="repartitionSourceTopics"),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
    ),
)
