"""The groups of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.double_processing.overlap import producers_of
from app.core.fencing.cases import generations_of
from app.core.fencing.evidence import GroupRecord
from app.core.fencing.record import GroupLosses
from app.core.journals.live_groups import LiveGroup
from app.core.lag.book import positions_of
from app.core.lag.report import LagReport
from app.core.lag.service import GroupLagDetail, Lags, LiveEnds
from app.core.observing import group_list
from app.core.observing.group_list import GroupQuery
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, Snapshot
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.storable import storable_text


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """lag: of all groups whose lag is sampled."""

    items: tuple[LiveGroup, ...]
    next_cursor: str | None
    matching: int
    journal: JournalStatus
    lag: LagReport


class GroupDetail(msgspec.Struct, frozen=True, kw_only=True):
    """transactional_ids: by producer id, of pending and stored offsets of the group, and of its findings.

    lag: None without a position.
    """

    group: LiveGroup
    transactional_ids: dict[int, str]
    journal: JournalStatus
    lag: GroupLagDetail | None


async def list_groups(
    uow: UnitOfWork,
    observations: Observations,
    lags: Lags,
    *,
    cluster: str,
    query: GroupQuery,
    after: str | None = None,
    limit: int = 50,
) -> GroupPage:
    """Return one page. Raises NotFoundError for an unknown cluster, InvalidError."""
    await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    report = lags.report_of(cluster)
    found = await asyncio.to_thread(
        group_list.select, snapshot.groups, query, lags=report.groups, after=after, limit=limit
    )
    return GroupPage(
        items=tuple(snapshot.clocks.group_ours(one) for one in found.items),
        next_cursor=found.next_cursor,
        matching=found.matching,
        journal=snapshot.group_journal,
        lag=report,
    )


AskEnds = Callable[[Cluster, LiveGroup], Awaitable[Mapping[Partition, LiveEnds]]]
"""Return newer ends of the group's partitions than those of the samples."""


async def get_group(
    uow: UnitOfWork,
    observations: Observations,
    lags: Lags,
    *,
    cluster: str,
    group: str,
    ask_ends: AskEnds,
    now: datetime,
) -> GroupDetail:
    """Raises NotFoundError, with the problem of the reading, if there is one."""
    entry = await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    live = snapshot.groups.get(group)
    if live is None:
        why = f"; {snapshot.group_journal.problem}" if snapshot.group_journal.problem else ""
        raise NotFoundError(f"no group {group} is known on {cluster}{why}")
    found = await _transactional_ids(snapshot, live)
    lag = None
    if positions_of(live):
        ends = await ask_ends(entry, live)
        lag = await lags.of_group(entry, live, live=ends, now_ms=int(now.timestamp() * 1000))
    return GroupDetail(
        group=snapshot.clocks.group_ours(live),
        transactional_ids=found,
        journal=snapshot.group_journal,
        lag=lag,
    )


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
