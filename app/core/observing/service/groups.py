"""The groups of a cluster."""

from __future__ import annotations

import asyncio

import msgspec

from app.core.clusters.store import ClusterStore
from app.core.double_processing.overlap import producers_of
from app.core.fencing.cases import generations_of
from app.core.fencing.evidence import GroupRecord
from app.core.fencing.record import GroupLosses
from app.core.journals.live_groups import LiveGroup
from app.core.observing import group_list
from app.core.observing.group_list import GroupQuery
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, Snapshot
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.storable import storable_text


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[LiveGroup, ...]
    next_cursor: str | None
    matching: int
    journal: JournalStatus


class GroupDetail(msgspec.Struct, frozen=True, kw_only=True):
    """transactional_ids: by producer id, of pending and stored offsets of the group, and of its findings."""

    group: LiveGroup
    transactional_ids: dict[int, str]
    journal: JournalStatus


async def list_groups(
    uow: UnitOfWork,
    observations: Observations,
    *,
    cluster: str,
    query: GroupQuery,
    after: str | None = None,
    limit: int = 50,
) -> GroupPage:
    """Return one page, by name. Raises NotFoundError for an unknown cluster, InvalidError."""
    await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    found = await asyncio.to_thread(group_list.select, snapshot.groups, query, after=after, limit=limit)
    return GroupPage(
        items=tuple(snapshot.clocks.group_ours(one) for one in found.items),
        next_cursor=found.next_cursor,
        matching=found.matching,
        journal=snapshot.group_journal,
    )


async def get_group(uow: UnitOfWork, observations: Observations, *, cluster: str, group: str) -> GroupDetail:
    """Raises NotFoundError, with the problem of the reading, if there is one."""
    await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    live = snapshot.groups.get(group)
    if live is None:
        why = f"; {snapshot.group_journal.problem}" if snapshot.group_journal.problem else ""
        raise NotFoundError(f"no group {group} is known on {cluster}{why}")
    found = await _transactional_ids(snapshot, live)
    return GroupDetail(group=snapshot.clocks.group_ours(live), transactional_ids=found, journal=snapshot.group_journal)


async def losses_of(observations: Observations, *, cluster: str | None, group: str) -> GroupLosses:
    """Return the filter for a group's fencing events: its members', and those of its ids.

    The ids are those with pending or stored offsets of the group, or in its findings of double processing. They are of
    a named cluster, as far as this server has read it.
    """
    snapshot = None if cluster is None else observations.of(cluster)
    live = None if snapshot is None else snapshot.groups.get(group)
    ids = {} if snapshot is None or live is None else await _transactional_ids(snapshot, live)
    return GroupLosses(group_id=storable_text(group), transactional_ids=tuple(sorted(filter(None, ids.values()))))


async def _transactional_ids(snapshot: Snapshot, live: LiveGroup) -> dict[int, str]:
    """By producer id."""
    offsets = (*live.pending.values(), *live.offsets.values())
    producers = {one.producer_id for one in offsets if one.producer_id >= 0} | producers_of([live])

    def names() -> dict[int, str]:
        ids = snapshot.transactions.items()
        return {one.state.producer_id: name for name, one in ids if one.state.producer_id in producers}

    # With 50,000 ids it takes milliseconds, many times a second for an open page.
    return await asyncio.to_thread(names) if producers else {}


def generations(observations: Observations, cluster: str, group: str) -> tuple[GroupRecord, ...]:
    """Return the generations that a group reached, as far as this server has read them; none if it is not observed."""
    snapshot = observations.of(cluster)
    live = snapshot.groups.get(group)
    return () if live is None else generations_of(snapshot.clocks.group_ours(live))
