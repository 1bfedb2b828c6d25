"""The readers and writers of topics, by the observer's snapshot and the pipelines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from app.core.journals.live_groups import GroupState, LiveGroup
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


class TopicsOfGroup(NamedTuple):
    group: LiveGroup
    topics: frozenset[str]


class GroupTopics:
    """The topics of each group, kept until the group changes: 5,000 groups have too many offsets for each view.

    Safe from any thread.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, TopicsOfGroup]] = {}

    def of(self, cluster: str, groups: Iterable[LiveGroup]) -> Collection[TopicsOfGroup]:
        """groups: of a snapshot, which has the same object for a group until it changes."""
        before, found = self._known.get(cluster, {}), dict[str, TopicsOfGroup]()
        for group in groups:
            known = before.get(group.group)
            is_same = known is not None and known.group is group
            found[group.group] = known if is_same and known is not None else TopicsOfGroup(group, _topics_of(group))
        self._known[cluster] = found
        return found.values()


def usage_of(
    topics: Collection[str],
    *,
    groups: Iterable[TopicsOfGroup],
    transactions: Iterable[LiveTransaction],
    pipelines: Iterable[Pipeline],
) -> dict[str, TopicUsage]:
    """Return the usage of each topic. One pass over the cluster's groups and ids, for any number of topics.

    groups: of `GroupTopics`. transactions: the open ones.
    """
    wanted = frozenset(topics)
    reading: defaultdict[str, list[ReadingGroup]] = defaultdict(list)
    for group, its in groups:
        for topic in its & wanted:
            reading[topic].append(_read_by(group, topic))
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


def _topics_of(group: LiveGroup) -> frozenset[str]:
    owned = (part.topic for member in members_of(group) for part in member.owned if part.partitions)
    return frozenset({*(at[0] for at in group.offsets), *(at[0] for at in group.pending), *owned})


def _read_by(group: LiveGroup, topic: str) -> ReadingGroup:
    owners = [member for member in members_of(group) if any(p.topic == topic and p.partitions for p in member.owned)]
    return ReadingGroup(
        group=group.group,
        state=group.state,
        members=len(owners),
        committed=sum(at[0] == topic for at in group.offsets),
        pending=len({at[:2] for at in group.pending if at[0] == topic}),
    )


def _writing(live: LiveTransaction, partitions: int) -> WritingId:
    return WritingId(
        transactional_id=live.transactional_id,
        producer_id=live.state.producer_id,
        producer_epoch=live.state.producer_epoch,
        partitions=partitions,
        start_ms=live.state.start_ms,
    )
