"""A page of a cluster's groups, and the members of a group for people."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from app.core.journals.group_values.classic import decode_assignment
from app.core.journals.group_values.consumer import EpochedPartitions, TopicIdPartitions
from app.core.journals.group_values.offsets import NO_TOPIC_ID
from app.core.journals.live_groups import GroupKind, GroupState, LiveGroup
from app.core.journals.transaction_state import TopicPartitions
from app.core.journals.wire_message import Undecodable
from app.core.lag.movement import RANK, LagState
from app.core.lag.report import GroupLag
from app.kit.errors import InvalidError
from app.kit.page import checked_limit, decode_cursor, encode_cursor

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")
_NO_LAG: Mapping[str, GroupLag] = MappingProxyType({})


class GroupSort(StrEnum):
    """NAME: by name. LAG: the most records first. LAG_TIME: the oldest unread record first. LAG_STATE: the worst first,
    and of equal ones that with the oldest unread record.
    """

    NAME = "name"
    LAG = "lag"
    LAG_TIME = "lag_time"
    LAG_STATE = "lag_state"


class GroupQuery(msgspec.Struct, frozen=True, kw_only=True):
    """search: a part of the name. states, kinds, lag_states: empty stands for all. has_pending: offsets of an open
    transaction.
    """

    search: str = ""
    states: frozenset[GroupState] = frozenset()
    kinds: frozenset[GroupKind] = frozenset()
    has_pending: bool | None = None
    lag_states: frozenset[LagState] = frozenset()
    sort: GroupSort = GroupSort.NAME


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


def select(
    groups: Mapping[str, LiveGroup],
    query: GroupQuery,
    *,
    lags: Mapping[str, GroupLag] = _NO_LAG,
    after: str | None,
    limit: int,
) -> GroupListPage:
    """Return one page. lags: by group, where they are known; the others come last. Raises InvalidError."""
    checked_limit(limit)
    start = None if after is None else _position(after, query.sort)
    key = _KEYS[query.sort]
    matching = _matching(groups, query, lags)
    places = ((key(lags[group.group]) if group.group in lags else 1, group.group) for group in matching)
    found = heapq.nsmallest(limit + 1, places if start is None else (place for place in places if place > start))
    page = found[:limit]
    cursor = None
    if len(found) > limit:
        number, name = page[-1]
        cursor = encode_cursor(name) if query.sort is GroupSort.NAME else encode_cursor(query.sort, str(number), name)
    return GroupListPage(tuple(groups[name] for _, name in page), cursor, len(matching))


# One comprehension for each condition, as for transactional ids.
def _matching(
    groups: Mapping[str, LiveGroup], query: GroupQuery, lags: Mapping[str, GroupLag]
) -> Collection[LiveGroup]:
    found: Collection[LiveGroup] = groups.values()
    if query.search:
        search = query.search.casefold()
        found = [group for group in found if search in group.group.casefold()]
    if query.states:
        found = [group for group in found if group.state in query.states]
    if query.kinds:
        found = [group for group in found if group.kind in query.kinds]
    if query.has_pending is not None:
        found = [group for group in found if bool(group.pending) is query.has_pending]
    if query.lag_states:
        found = [group for group in found if group.group in lags and lags[group.group].state in query.lag_states]
    return found


_KEYS: Mapping[GroupSort, Callable[[GroupLag], int]] = {
    GroupSort.NAME: lambda _: 1,
    GroupSort.LAG: lambda lag: 0 if lag.lag_records is None else -lag.lag_records,
    GroupSort.LAG_TIME: lambda lag: 0 if lag.lag_ms is None else -lag.lag_ms,
    GroupSort.LAG_STATE: lambda lag: (RANK[lag.state] - len(RANK) << 40) - min(lag.lag_ms or 0, (1 << 40) - 1),
}
"""Below 1, which is the place of groups without lag."""


def in_order(groups: Mapping[str, LiveGroup], lags: Mapping[str, GroupLag], sort: GroupSort) -> list[LiveGroup]:
    """Return all of them in an order of `select`."""
    key = _KEYS[sort]
    return sorted(groups.values(), key=lambda one: (key(lags[one.group]) if one.group in lags else 1, one.group))


def _position(after: str, sort: GroupSort) -> tuple[int, str]:
    if sort is GroupSort.NAME:
        return 1, decode_cursor(after, keys=1)[0]
    cursor_sort, number, name = decode_cursor(after, keys=3)
    if cursor_sort != sort or _WHOLE_NUMBER.fullmatch(number) is None:
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return int(number), name


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
