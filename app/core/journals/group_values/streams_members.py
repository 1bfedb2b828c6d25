"""Convert members of a Streams group to those of a KIP-848 group, which they resemble.

Their active tasks stand for partitions, with the subtopology in the place of the topic id. Standby and warm-up tasks
are left out: nothing is read or committed for them.
"""

from __future__ import annotations

from app.core.journals.group_values.consumer import (
    ConsumerMember,
    CurrentAssignment,
    EpochedPartitions,
    MemberState,
    TargetAssignment,
    TopicIdPartitions,
)
from app.core.journals.group_values.streams import (
    EpochedTasks,
    StreamsCurrentAssignment,
    StreamsMember,
    StreamsMemberState,
    StreamsTargetAssignment,
)

_STATES = {
    StreamsMemberState.STABLE: MemberState.STABLE,
    StreamsMemberState.UNREVOKED_TASKS: MemberState.UNREVOKED_PARTITIONS,
    StreamsMemberState.UNRELEASED_TASKS: MemberState.UNRELEASED_PARTITIONS,
    StreamsMemberState.UNKNOWN: MemberState.UNKNOWN,
}


def member_of(value: StreamsMember) -> ConsumerMember:
    return ConsumerMember(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topics=(),
        subscribed_pattern=None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=None,
    )


def target_of(value: StreamsTargetAssignment) -> TargetAssignment:
    return TargetAssignment(tuple(TopicIdPartitions(one.subtopology, one.partitions) for one in value.active))


def current_of(value: StreamsCurrentAssignment) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=_STATES[value.state],
        assigned=_partitions_of(value.active),
        pending_revocation=_partitions_of(value.active_pending_revocation),
    )


def _partitions_of(tasks: tuple[EpochedTasks, ...]) -> tuple[EpochedPartitions, ...]:
    return tuple(EpochedPartitions(one.subtopology, one.partitions, one.epochs) for one in tasks)
