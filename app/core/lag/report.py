"""The lag of a cluster's groups at one moment, as pages, REST, metrics and alerts show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from app.core.clusters.partition import Partition
from app.core.lag.movement import RANK, LagState

_CURRENT_ROUNDS = 4
_CURRENT_MS = 60_000


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one partition. None: not known.

    end, last_stable: of `as_of_ms`. unread: offsets between the committed one and the end.
    lag_records: the same, and 0 if only markers and aborted records are left. blocked: those behind the last stable
    offset. lag_ms: the age of the oldest unread record; is_bound: or more, since the history of ends begins there.
    since_ms: when the committed offset was last seen to change. growing_ms: when the lag began to grow.
    problem: why the leader's answer is missing or old.
    """

    at: Partition
    state: LagState
    committed: int
    end: int | None = None
    last_stable: int | None = None
    unread: int | None = None
    lag_records: int | None = None
    blocked: int | None = None
    lag_ms: int | None = None
    is_bound: bool = False
    since_ms: int | None = None
    growing_ms: int | None = None
    rate: float | None = None
    as_of_ms: int | None = None
    problem: str = ""

    @property
    def is_only_markers(self) -> bool:
        return bool(self.unread) and self.lag_records == 0


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """A group in all of its partitions.

    since_ms: begin of the state, as far as this server has observed it. lag_records, blocked, rate: sums over the
    `known` partitions of `partitions`; lag_ms, is_bound: of the partition whose oldest unread record is oldest.
    troubled: the number of partitions with the state. growing_ms: when the lag of a partition began to grow.
    pipeline: whose group is paused.
    """

    group: str
    state: LagState
    since_ms: int
    partitions: int
    known: int
    troubled: int
    lag_records: int | None = None
    lag_ms: int | None = None
    is_bound: bool = False
    blocked: int | None = None
    rate: float | None = None
    growing_ms: int | None = None
    pipeline: str | None = None


class LagSample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The greatest lag of a group in a time of `SERIES_MS` that ends at `at_ms`; None: not known."""

    at_ms: int
    lag_records: int | None
    lag_ms: int | None


class LagReport(msgspec.Struct, frozen=True, kw_only=True):
    """All groups of a cluster that are sampled: those with members, or with a commit in the last day.

    at_ms: of the newest round, -1 before the first. sampled: the partitions of that round. partitions: of all groups;
    period_ms: the time in which each is asked once. unanswered: the number of those without a current answer.
    problem: a sentence; empty without one.
    """

    cluster: str
    at_ms: int = -1
    groups: Mapping[str, GroupLag] = MappingProxyType({})
    sampled: int = 0
    partitions: int = 0
    period_ms: int = 0
    unanswered: int = 0
    problem: str = ""

    def is_current(self, *, now_ms: int) -> bool:
        """Return True if its groups are of now: the brokers answer, and the last rounds took place."""
        return not self.problem and now_ms - self.at_ms <= max(_CURRENT_MS, _CURRENT_ROUNDS * self.period_ms)


def group_lag(
    group: str,
    found: Iterable[PartitionLag],
    *,
    state_before: GroupLag | None,
    has_members: bool,
    is_still: bool,
    paused: str | None,
    now_ms: int,
) -> GroupLag:
    """Return the sum of a group's partitions.

    is_still: it has committed nothing in any partition for longer than its patience. paused: the pipeline that a user
    has paused or stopped.
    """
    rows = list(found)
    known = [one for one in rows if one.lag_records is not None]
    worst = min((one.state for one in rows), key=RANK.__getitem__, default=LagState.UNKNOWN)
    if paused is not None:
        worst = LagState.PAUSED
    elif not has_members and is_still and worst not in (LagState.BLOCKED, LagState.UNKNOWN):
        worst = LagState.NO_MEMBERS
    elif worst is LagState.UNKNOWN and known:
        # The others are known: the missing ones are counted beside the state.
        worst = min((one.state for one in known), key=RANK.__getitem__)
    oldest = max(known, key=lambda one: one.lag_ms or 0, default=None)
    growing = [one.growing_ms for one in known if one.growing_ms is not None]
    rates = [one.rate for one in known if one.rate is not None]
    is_same = state_before is not None and state_before.state is worst and state_before.since_ms <= now_ms
    return GroupLag(
        group=group,
        state=worst,
        since_ms=state_before.since_ms if state_before is not None and is_same else now_ms,
        partitions=len(rows),
        known=len(known),
        troubled=sum(one.state is worst for one in rows),
        lag_records=sum(one.lag_records or 0 for one in known) if known else None,
        lag_ms=None if oldest is None else oldest.lag_ms,
        is_bound=oldest is not None and oldest.is_bound,
        blocked=sum(one.blocked or 0 for one in known) if known else None,
        rate=sum(rates) if rates else None,
        growing_ms=min(growing, default=None) if paused is None else None,
        pipeline=paused,
    )


def folded(rows: Iterable[PartitionLag]) -> list[tuple[PartitionLag, ...]]:
    """Return partitions of one topic with one state and nothing that differs for a reader together, worst first.

    Healthy partitions are equal; others are equal with the same lag, in which case they have the same reason.
    """
    groups: dict[tuple[object, ...], list[PartitionLag]] = {}
    for one in sorted(rows, key=lambda row: row.at):
        same = () if one.state is LagState.HEALTHY and not one.problem else (one.lag_records, one.problem, one.is_bound)
        groups.setdefault((one.at.topic, one.state, *same), []).append(one)
    return sorted(
        (tuple(found) for found in groups.values()),
        key=lambda found: (RANK[found[0].state], -max(one.lag_ms or 0 for one in found), found[0].at),
    )
