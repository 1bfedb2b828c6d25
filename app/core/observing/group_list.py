"""A page of a cluster's groups, and the members of a group for people."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from app.core.journals.group_values.classic import decode_assignment
from app.core.journals.group_values.consumer import EpochedPartitions, TopicIdPartitions
from app.core.journals.group_values.offsets import NO_TOPIC_ID
from app.core.journals.live_groups import GroupKind, GroupState, LiveGroup
from app.core.journals.transaction_state import TopicPartitions
from app.core.journals.wire_message import Undecodable
from app.kit.page import checked_limit, decode_cursor, encode_cursor


class GroupQuery(msgspec.Struct, frozen=True, kw_only=True):
    """search: a part of the name. states, kinds: empty stands for all. has_pending: offsets of an open transaction."""

    search: str = ""
    states: frozenset[GroupState] = frozenset()
    kinds: frozenset[GroupKind] = frozenset()
    has_pending: bool | None = None


class GroupListPage(NamedTuple):
    items: tuple[LiveGroup, ...]
    next_cursor: str | None
    matching: int


class ListedMember(msgspec.Struct, frozen=True, kw_only=True):
    """owned, target: partitions by topic; by topic id if its name is not known. epoch: of a KIP-848 member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    owned: tuple[TopicPartitions, ...]
    target: tuple[TopicPartitions, ...]
    revoking: tuple[TopicPartitions, ...] = ()
    epoch: int | None = None
    state: str | None = None


def select(groups: Mapping[str, LiveGroup], query: GroupQuery, *, after: str | None, limit: int) -> GroupListPage:
    """Return one page, by name. Raises InvalidError."""
    checked_limit(limit)
    start = None if after is None else decode_cursor(after, keys=1)[0]
    search = query.search.casefold()
    names: list[str] = []
    matching = 0
    for group in groups.values():
        is_found = (
            search in group.group.casefold()
            and (not query.states or group.state in query.states)
            and (not query.kinds or group.kind in query.kinds)
            and (query.has_pending is None or bool(group.pending) is query.has_pending)
        )
        matching += is_found
        if is_found and (start is None or group.group > start):
            names.append(group.group)
    found = heapq.nsmallest(limit + 1, names)
    page = found[:limit]
    cursor = encode_cursor(page[-1]) if len(found) > limit else None
    return GroupListPage(tuple(groups[name] for name in page), cursor, matching)


def members_of(group: LiveGroup) -> tuple[ListedMember, ...]:
    """By member id."""
    found = _modern_members(group) if group.has_epoch else _classic_members(group)
    return tuple(sorted(found, key=lambda member: member.member_id))


def _classic_members(group: LiveGroup) -> Iterable[ListedMember]:
    for member in group.classic.members if group.classic is not None else ():
        decoded = decode_assignment(member.assignment)
        owned = () if isinstance(decoded, Undecodable) else decoded
        yield ListedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.removeprefix("/"),
            owned=owned,
            target=owned,
        )


def _modern_members(group: LiveGroup) -> Iterable[ListedMember]:
    # The records of members name topics by id; those of offsets tell both, as does a coordinator.
    names = group.topic_names | {stored.commit.topic_id: topic for (topic, _), stored in group.offsets.items()}
    names.pop(NO_TOPIC_ID, None)

    def topics_of(topic_id: str) -> tuple[str, ...]:
        unnamed = (names.get(topic_id, topic_id),)
        return unnamed if group.subtopologies is None else group.subtopologies.get(topic_id, unnamed)

    def named(partitions: Iterable[EpochedPartitions | TopicIdPartitions]) -> tuple[TopicPartitions, ...]:
        return tuple(TopicPartitions(topic, one.partitions) for one in partitions for topic in topics_of(one.topic_id))

    for member_id, member in group.members.items():
        said, current = member.metadata, member.current
        yield ListedMember(
            member_id=member_id,
            instance_id=None if said is None else said.instance_id,
            client_id="" if said is None else said.client_id,
            host="" if said is None else said.client_host.removeprefix("/"),
            owned=() if current is None else named(current.assigned),
            target=() if member.target is None else named(member.target.partitions),
            revoking=() if current is None else named(current.pending_revocation),
            epoch=None if current is None else current.member_epoch,
            state=None if current is None else current.state.name.lower(),
        )
