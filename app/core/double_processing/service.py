"""The findings of double processing on a cluster, from the newest snapshot of its observer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from app.core.clusters.store import ClusterStore
from app.core.double_processing.overlap import Overlap, is_recent_problem, overlaps_of, producers_of
from app.core.journals.double_processing import OverlapGrade
from app.core.journals.live_groups import LiveGroup
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, Snapshot
from app.kit.db.unit_of_work import UnitOfWork

OPEN_FOR = timedelta(hours=24)
"""A finding is an open problem of the overview for this time."""
MAX_LISTED = 500
_UNKNOWN = datetime.min.replace(tzinfo=UTC)


class OverlapList(msgspec.Struct, frozen=True, kw_only=True):
    """items: newest first, at most MAX_LISTED. counts: all findings by grade since the journal is read."""

    items: tuple[Overlap, ...]
    counts: dict[OverlapGrade, int]
    journal: JournalStatus


class OpenOverlaps(msgspec.Struct, frozen=True, kw_only=True):
    """The proved and likely findings of the last day on one cluster, newest first."""

    cluster: str
    items: tuple[Overlap, ...]


async def list_overlaps(
    uow: UnitOfWork, observations: Observations, *, cluster: str, group: str | None = None
) -> OverlapList:
    """Return the findings of a cluster, or of one group. Raises NotFoundError for an unknown cluster."""
    await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    return await asyncio.to_thread(_listed, snapshot, group)


async def open_overlaps(observations: Observations, *, now: datetime) -> tuple[OpenOverlaps, ...]:
    """Return the open problems of all observed clusters; clusters without any are left out."""
    found = await asyncio.to_thread(
        lambda: [open_on(snapshot, since=now - OPEN_FOR) for snapshot in observations.all()]
    )
    return tuple(one for one in found if one.items)


def open_on(snapshot: Snapshot, *, since: datetime) -> OpenOverlaps:
    """Return the proved and likely findings of a snapshot since then, newest first."""
    groups = [group for group in snapshot.groups.values() if is_recent_problem(group, since=since)]
    items = [one for one in _of(snapshot, groups) if one.grade.is_problem and one.at is not None and one.at >= since]
    return OpenOverlaps(cluster=snapshot.cluster, items=tuple(items[:MAX_LISTED]))


def counts_of(groups: Iterable[LiveGroup]) -> dict[OverlapGrade, int]:
    """Return the number of all findings by grade, including those that are not kept."""
    found = dict.fromkeys(OverlapGrade, 0)
    for group in groups:
        for grade, times in group.watch.counts.items():
            found[grade] += times
    return found


def _listed(snapshot: Snapshot, name: str | None) -> OverlapList:
    groups = list(snapshot.groups.values()) if name is None else [snapshot.groups[name]] * (name in snapshot.groups)
    return OverlapList(
        items=tuple(_of(snapshot, groups)[:MAX_LISTED]), counts=counts_of(groups), journal=snapshot.group_journal
    )


def _of(snapshot: Snapshot, groups: Iterable[LiveGroup]) -> list[Overlap]:
    with_some = [snapshot.clocks.group_ours(one) for one in groups if one.watch.findings]
    if not with_some:
        return []
    wanted = producers_of(with_some)
    # With 50,000 ids it takes milliseconds.
    names = {
        one.state.producer_id: name for name, one in snapshot.transactions.items() if one.state.producer_id in wanted
    }
    by_name = sorted(with_some, key=lambda group: group.group)
    found = [one for group in by_name for one in overlaps_of(group, names)]
    return sorted(found, key=lambda one: one.at or _UNKNOWN, reverse=True)
