"""The findings in a snapshot of a cluster: all of them, and those that are open problems."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from app.core.double_processing.overlap import Overlap, is_recent_problem, overlaps_of, producers_of
from app.core.journals.double_processing import OverlapGrade
from app.core.journals.live_groups import LiveGroup
from app.core.observing.snapshot import JournalStatus, Snapshot

MAX_LISTED = 500
_UNKNOWN = datetime.min.replace(tzinfo=UTC)


class OverlapList(msgspec.Struct, frozen=True, kw_only=True):
    """items: newest first, at most MAX_LISTED. counts: all findings by grade since the journal is read."""

    items: tuple[Overlap, ...]
    counts: dict[OverlapGrade, int]
    journal: JournalStatus


class OpenOverlaps(msgspec.Struct, frozen=True, kw_only=True):
    """The recent proved and likely findings on one cluster, newest first, at most MAX_LISTED."""

    cluster: str
    items: tuple[Overlap, ...]


def listed(snapshot: Snapshot, group: str | None) -> OverlapList:
    """Return the findings of a cluster, or of one group; none of an unknown group."""
    live = None if group is None else snapshot.groups.get(group)
    groups = list(snapshot.groups.values()) if group is None else [] if live is None else [live]
    return OverlapList(
        items=tuple(_of(snapshot, groups)[:MAX_LISTED]), counts=counts_of(groups), journal=snapshot.group_journal
    )


def open_on(snapshot: Snapshot, *, since: datetime) -> OpenOverlaps:
    """Return the proved and likely findings of a snapshot since then."""
    # Most of 5,000 groups have no finding: none of them costs a call.
    groups = [one for one in snapshot.groups.values() if one.watch.findings and is_recent_problem(one, since=since)]
    items = [one for one in _of(snapshot, groups) if one.grade.is_problem and one.at is not None and one.at >= since]
    return OpenOverlaps(cluster=snapshot.cluster, items=tuple(items[:MAX_LISTED]))


def counts_of(groups: Iterable[LiveGroup]) -> dict[OverlapGrade, int]:
    """Return the number of all findings by grade, including those that are not kept."""
    found = dict.fromkeys(OverlapGrade, 0)
    for group in groups:
        for grade, times in group.watch.counts.items():
            found[grade] += times
    return found


def _of(snapshot: Snapshot, groups: Iterable[LiveGroup]) -> list[Overlap]:
    with_some = [snapshot.clocks.group_ours(one) for one in groups if one.watch.findings]
    if not with_some:
        return []
    wanted = producers_of(with_some)
    # With 50,000 ids it takes milliseconds.
    ids = snapshot.transactions.items()
    names = {one.state.producer_id: name for name, one in ids if one.state.producer_id in wanted}
    by_name = sorted(with_some, key=lambda group: group.group)
    found = [one for group in by_name for one in overlaps_of(group, names)]
    return sorted(found, key=lambda one: one.at or _UNKNOWN, reverse=True)
