"""The readers and writers of topics, by the observer's snapshot and the pipelines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from app.core.journals.live_groups import GroupKind, GroupState, LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.group_list import members_of
from app.core.pipelines.pipeline_checks import outputs_of
from app.core.pipelines.pipeline_record import Pipeline


class ReadingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with committed or pending offsets of the topic, or members with partitions of it.

    members: those with partitions of the topic. committed, pending: partitions with such an offset.
    """

    group: str
    state: GroupState
    members: int
    committed: int
    pending: int


class WritingId(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id with an open transaction that has partitions of the topic."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: int
    start_ms: int


class TopicUsage(msgspec.Struct, frozen=True, kw_only=True):
    """readers, writers: pipelines, by name. groups, ids: by the journals; empty where these are not read."""

    groups: tuple[ReadingGroup, ...] = ()
    ids: tuple[WritingId, ...] = ()
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()


def usage_of(
    topics: Collection[str],
    *,
    groups: Iterable[LiveGroup],
    transactions: Iterable[LiveTransaction],
    pipelines: Iterable[Pipeline],
) -> dict[str, TopicUsage]:
    """Return the usage of each topic. One pass over the cluster's groups and ids, for any number of topics.

    transactions: the open ones.
    """
    wanted = frozenset(topics)
    names = [topic.encode() for topic in wanted]
    reading: defaultdict[str, list[ReadingGroup]] = defaultdict(list)
    for group in groups:
        for topic, found in _read_by(group, wanted, names).items():
            reading[topic].append(found)
    writing: defaultdict[str, list[WritingId]] = defaultdict(list)
    for live in transactions:
        for part in live.state.partitions or ():
            if part.topic in wanted:
                writing[part.topic].append(_writing(live, len(part.partitions)))
    readers: defaultdict[str, set[str]] = defaultdict(set)
    writers: defaultdict[str, set[str]] = defaultdict(set)
    for pipeline in pipelines:
        for topic in pipeline.definition.source_topics:
            readers[topic].add(pipeline.name)
        for topic in outputs_of(pipeline.definition).values():
            writers[topic].add(pipeline.name)
    return {
        topic: TopicUsage(
            groups=tuple(sorted(reading[topic], key=lambda one: one.group)),
            ids=tuple(sorted(writing[topic], key=lambda one: (one.start_ms, one.transactional_id))),
            readers=tuple(sorted(readers[topic])),
            writers=tuple(sorted(writers[topic])),
        )
        for topic in wanted
    }


def _read_by(group: LiveGroup, wanted: frozenset[str], names: Sequence[bytes]) -> Mapping[str, ReadingGroup]:
    """names: those of `wanted`, as bytes."""
    offsets = [topic for topic, _ in group.offsets if topic in wanted]
    has_members = _may_have(group, names)
    if not offsets and not group.pending and not has_members:
        # Most of 5,000 groups: no counter is made for them.
        return {}
    committed = Counter(offsets)
    pending = Counter(topic for topic, _ in {at[:2] for at in group.pending} if topic in wanted)
    members: Counter[str] = Counter()
    if has_members:
        for member in members_of(group):
            members.update({part.topic for part in member.owned if part.partitions} & wanted)
    return {
        topic: ReadingGroup(
            group=group.group,
            state=group.state,
            members=members[topic],
            committed=committed[topic],
            pending=pending[topic],
        )
        for topic in {*committed, *pending, *members}
    }


def _may_have(group: LiveGroup, names: Sequence[bytes]) -> bool:
    """Return False for a classic group whose assignments, as bytes, have none of the names: decoding takes longer."""
    if group.has_epoch:
        return bool(group.members)
    if group.classic is None or group.kind is not GroupKind.CLASSIC:
        return False
    return any(name in member.assignment for member in group.classic.members for name in names)


def _writing(live: LiveTransaction, partitions: int) -> WritingId:
    return WritingId(
        transactional_id=live.transactional_id,
        producer_id=live.state.producer_id,
        producer_epoch=live.state.producer_epoch,
        partitions=partitions,
        start_ms=live.state.start_ms,
    )
