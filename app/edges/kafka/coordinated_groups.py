"""Read groups from the group coordinators by admin calls, if `__consumer_offsets` is not read.

Every broker lists the groups that it coordinates, then describes each of them with its offsets. The error of one group
or broker costs its own answer only. No request looks up a coordinator, as that would create the journal.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.admin.groups import (  # pyright: ignore[reportMissingTypeStubs]
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import OffsetFetchRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.journals.group_values.classic import ClassicGroup, ClassicMember
from app.core.journals.group_values.consumer import (
    ConsumerMember,
    CurrentAssignment,
    EpochedPartitions,
    MemberState,
    TargetAssignment,
    TopicIdPartitions,
)
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, GroupKind, GroupState, LiveGroup, LiveMember
from app.core.observing.group_list import members_of
from app.edges.kafka.group_client import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from app.edges.kafka.raw_client import error_of, errors, is_transient, reading_answers

_GROUPS_IN_A_REQUEST = 200
_CONSUMER = "consumer"
_CLASSIC = "classic"
_STREAMS = "streams"
_SHARE = "share"
_DEAD = "Dead"
_GROUP_ID_NOT_FOUND = 69
_UNSTABLE_OFFSET_COMMIT = 88
# Names topics by name and takes several groups; brokers from 3.0 on.
_OFFSET_FETCH_VERSION = 8
_DESCRIBE_VERSION = 5

_List: Any = ListGroupsRequest
_Describe: Any = DescribeGroupsRequest
_DescribeModern: Any = ConsumerGroupDescribeRequest
_DescribeStreams: Any = StreamsGroupDescribeRequest
_DescribeShare: Any = ShareGroupDescribeRequest
_Offsets: Any = OffsetFetchRequest


class DescribedGroups(NamedTuple):
    """groups: by name. missing: a sentence for each broker without an answer, and for each kind of refusal."""

    groups: dict[str, LiveGroup]
    missing: tuple[str, ...]


class _Refusals:
    """The groups for which one question was refused, reported together, as there may be thousands."""

    def __init__(self) -> None:
        self._groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def note(self, question: str, group: str, code: int) -> None:
        error = error_of(code, None)
        # The next answer has a group that expired or whose coordinator moved meanwhile.
        if code != _GROUP_ID_NOT_FOUND and not is_transient(error):
            self._groups[question, str(error)].append(group)

    def sentences(self) -> Iterator[str]:
        for (question, error), groups in self._groups.items():
            others = f" and {len(groups) - 1} others" if len(groups) > 1 else ""
            yield f"{question} of {groups[0]}{others}: {error}"


def describe_all(
    send: Callable[[Any, int], Any], broker_ids: Sequence[int], *, is_wanted: Callable[[str], bool]
) -> DescribedGroups:
    """Read every wanted group of the list, in the form of the journal's decoder.

    Args:
        send: returns a broker's answer to a request, or raises a KafkaError of the library's in bounded time.
    """
    found: dict[str, LiveGroup] = {}
    missing: list[str] = []
    refusals = _Refusals()
    for broker_id in broker_ids:
        try:
            with reading_answers():
                listed = send(_List(states_filter=[], types_filter=[]), broker_id)
                if listed.error_code != 0:
                    raise error_of(listed.error_code, "ListGroups")
                alive = [one for one in listed.groups if one.group_state != _DEAD]
                for some in _in_parts([one for one in alive if is_wanted(one.group_id)]):
                    groups = _described(lambda request, to=broker_id: send(request, to), some, refusals)
                    _add_offsets(lambda request, to=broker_id: send(request, to), groups, refusals)
                    found |= groups
        except errors.KafkaError as error:
            missing.append(f"broker {broker_id}: {str(error) or type(error).__name__}")
    return DescribedGroups(found, (*missing, *refusals.sentences()))


def _kind(listed: Any) -> str:
    # Brokers before 3.8 have classic groups only, and report no type.
    return (listed.group_type or _CLASSIC).lower()


def _in_parts(listed: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(listed), _GROUPS_IN_A_REQUEST):
        yield listed[start : start + _GROUPS_IN_A_REQUEST]


def _described(send: Callable[[Any], Any], listed: Sequence[Any], refusals: _Refusals) -> dict[str, LiveGroup]:
    """Use each group's description; without permission or a known type, its entry in the list."""
    kinds = {one.group_id: _kind(one) for one in listed}
    names = {kind: sorted(name for name, its in kinds.items() if its == kind) for kind in _GROUPS}
    answers: list[Any] = []
    for kind, describe in ((_CONSUMER, _DescribeModern), (_STREAMS, _DescribeStreams), (_SHARE, _DescribeShare)):
        if names[kind]:
            answers += send(describe(group_ids=names[kind], include_authorized_operations=False)).groups
    if names[_CLASSIC]:
        request = _Describe(groups=names[_CLASSIC], include_authorized_operations=False, max_version=_DESCRIBE_VERSION)
        answers += send(request).groups
    groups = {one.group_id: _listed_group(one, kinds[one.group_id]) for one in listed}
    for one in answers:
        if one.error_code != 0:
            refusals.note("the description", one.group_id, one.error_code)
        elif one.group_state == _DEAD:
            del groups[one.group_id]
        else:
            groups[one.group_id] = _GROUPS[kinds[one.group_id]](one)
    return groups


def _listed_group(one: Any, kind: str) -> LiveGroup:
    return LiveGroup(
        one.group_id,
        classic=ClassicGroup(one.protocol_type, -1) if kind == _CLASSIC else None,
        epoch=-1 if kind in (_CONSUMER, _STREAMS, _SHARE) else None,
        subtopologies={} if kind == _STREAMS else None,
        is_share=kind == _SHARE,
        other_type="" if kind in _GROUPS else kind,
        answered_state=_state(one.group_state),
    )


def _classic_group(one: Any) -> LiveGroup:
    members = tuple(
        ClassicMember(
            member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            assignment=bytes(member.member_assignment or b""),
        )
        for member in one.members
    )
    told = ClassicGroup(one.protocol_type, -1, protocol=one.protocol_data or None, members=members)
    return LiveGroup(one.group_id, classic=told, answered_state=_state(one.group_state))


def _modern_group(one: Any) -> LiveGroup:
    names = {
        _topic_id(topic.topic_id): str(topic.topic_name)
        for member in one.members
        for topic in (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
    }
    return LiveGroup(
        one.group_id,
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
        members={member.member_id: _modern_member(member) for member in one.members},
        answered_state=_state(one.group_state),
        topic_names=names,
    )


def _modern_member(member: Any) -> LiveMember:
    def partitions(assignment: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
        for topic in assignment.topic_partitions:
            yield _topic_id(topic.topic_id), tuple(topic.partitions)

    return _member(
        member,
        owned=partitions(member.assignment),
        target=partitions(member.target_assignment),
        topics=tuple(member.subscribed_topic_names),
        pattern=member.subscribed_topic_regex,
    )


def _streams_group(one: Any) -> LiveGroup:
    def tasks(assignment: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
        for some in assignment.active_tasks:
            yield some.subtopology_id, tuple(some.partitions)

    subtopologies = () if one.topology is None else one.topology.subtopologies or ()
    return LiveGroup(
        one.group_id,
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
        members={
            member.member_id: _member(member, owned=tasks(member.assignment), target=tasks(member.target_assignment))
            for member in one.members
        },
        subtopologies={
            part.subtopology_id: (*part.source_topics, *(topic.name for topic in part.repartition_source_topics))
            for part in subtopologies
        },
        answered_state=_state(one.group_state),
    )


def _share_group(one: Any) -> LiveGroup:
    return LiveGroup(
        one.group_id,
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
        members={member.member_id: _share_member(member) for member in one.members},
        answered_state=_state(one.group_state),
        topic_names={
            _topic_id(topic.topic_id): str(topic.topic_name)
            for member in one.members
            for topic in member.assignment.topic_partitions
        },
        is_share=True,
    )


def _share_member(member: Any) -> LiveMember:
    def partitions() -> Iterator[tuple[str, tuple[int, ...]]]:
        for topic in member.assignment.topic_partitions:
            yield _topic_id(topic.topic_id), tuple(topic.partitions)

    # Its description has no target.
    return _member(member, owned=partitions(), target=iter(()), topics=tuple(member.subscribed_topic_names))


def _member(
    member: Any,
    *,
    owned: Iterator[tuple[str, tuple[int, ...]]],
    target: Iterator[tuple[str, tuple[int, ...]]],
    topics: tuple[str, ...] = (),
    pattern: str | None = None,
) -> LiveMember:
    return LiveMember(
        metadata=ConsumerMember(
            instance_id=getattr(member, "instance_id", None),
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topics=topics,
            subscribed_pattern=pattern,
            rebalance_timeout_ms=-1,
            server_assignor=None,
        ),
        current=CurrentAssignment(
            member_epoch=member.member_epoch,
            previous_member_epoch=-1,
            state=MemberState.UNKNOWN,
            assigned=tuple(EpochedPartitions(*one) for one in owned),
            pending_revocation=(),
        ),
        target=TargetAssignment(tuple(TopicIdPartitions(*one) for one in target)),
    )


_GROUPS = {_CLASSIC: _classic_group, _CONSUMER: _modern_group, _STREAMS: _streams_group, _SHARE: _share_group}
_WITH_OFFSETS = frozenset({GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.STREAMS, GroupKind.OFFSETS_ONLY})


def _add_offsets(send: Callable[[Any], Any], groups: Mapping[str, LiveGroup], refusals: _Refusals) -> None:
    """Read the committed offsets of each, and the partitions with pending offsets of an open transaction."""
    groups = {name: group for name, group in groups.items() if group.kind in _WITH_OFFSETS}
    for name, topic, part in _offsets(send, dict.fromkeys(groups), refusals, require_stable=False):
        if part.error_code == 0 and part.committed_offset >= 0:
            commit = OffsetCommit(
                part.committed_offset, leader_epoch=part.committed_leader_epoch, metadata=part.metadata or ""
            )
            groups[name].offsets[topic, part.partition_index] = CommittedOffset(commit, -1)
    positions = {name: _positions(group) for name, group in groups.items()}
    with_positions = {name: found for name, found in positions.items() if found}
    for name, topic, part in _offsets(send, with_positions, refusals, require_stable=True):
        if part.error_code == _UNSTABLE_OFFSET_COMMIT:
            groups[name].pending[topic, part.partition_index, -1] = CommittedOffset(OffsetCommit(-1), -1)


def _positions(group: LiveGroup) -> dict[str, list[int]]:
    """Request by name: an answer to "all" omits pending offsets without a committed one."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for topic, partition in group.offsets:
        found[topic].add(partition)
    for member in members_of(group):
        for owned in member.owned:
            found[owned.topic].update(owned.partitions)
    return {topic: sorted(partitions) for topic, partitions in found.items()}


def _offsets(
    send: Callable[[Any], Any],
    wanted: Mapping[str, Mapping[str, list[int]] | None],
    refusals: _Refusals,
    *,
    require_stable: bool,
) -> Iterator[tuple[str, str, Any]]:
    """Yield group, topic and the answer for a partition; of these, or of all with a committed offset (None)."""
    if not wanted:
        return
    group = _Offsets.OffsetFetchRequestGroup
    answer = send(
        _Offsets(
            groups=[
                group(
                    group_id=name,
                    topics=None
                    if topics is None
                    else [
                        group.OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)
                        for topic, partitions in topics.items()
                    ],
                )
                for name, topics in wanted.items()
            ],
            require_stable=require_stable,
            min_version=_OFFSET_FETCH_VERSION,
            max_version=_OFFSET_FETCH_VERSION,
        )
    )
    for one in answer.groups:
        if one.error_code != 0:
            refusals.note("the offsets", one.group_id, one.error_code)
        else:
            for topic in one.topics:
                for part in topic.partitions:
                    yield one.group_id, topic.name, part


def _state(word: str) -> GroupState:
    return GroupState(word) if word in set(GroupState) else GroupState.UNKNOWN


def _topic_id(topic_id: UUID | None) -> str:
    """Format as Kafka and the journal's decoder do."""
    return base64.urlsafe_b64encode((topic_id or UUID(int=0)).bytes)[:22].decode("ascii")
