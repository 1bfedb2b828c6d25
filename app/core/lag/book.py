"""The memory of a server for the lag of a cluster's groups: ends of 24 hours, movements, and each group's series."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

import msgspec

from app.core.blocked.facts import Refused
from app.core.clusters.partition import Partition
from app.core.hanging.search import StableEnd
from app.core.journals.live_groups import LiveGroup
from app.core.journals.query_marker import marker_of
from app.core.lag.end_history import KEPT_MS, EndHistory
from app.core.lag.movement import LagState, Movement, Situation, judge
from app.core.lag.report import GroupLag, LagReport, LagSample, PartitionLag, group_lag

SERIES_MS = 300_000
MOST_QUIET_OFFSETS = 1_000
_UNKNOWN = -1

Answer = StableEnd | Refused
Stretch = tuple[int, int]
"""A range of offsets: the first, and the one after the last."""


class PartitionEnds(msgspec.Struct):
    """history: of the high watermark. last: the newest answer, of `as_of_ms`; None before the first.

    blocked_ms: when the last stable offset was first seen where it stands now, below the high watermark; -1: it is not.
    problem: of the newest request, empty if it was answered.
    """

    history: EndHistory
    last: StableEnd | None = None
    as_of_ms: int = _UNKNOWN
    asked_ms: int = _UNKNOWN
    blocked_ms: int = _UNKNOWN
    problem: str = ""

    def note(self, answer: Answer, at_ms: int) -> bool:
        """Return False if the history began again, so that movements in the partition mean nothing any more."""
        self.asked_ms = at_ms
        if isinstance(answer, Refused):
            self.problem = problem_of(answer)
            return True
        before, self.last = self.last, answer
        self.as_of_ms, self.problem = at_ms, ""
        if answer.last_stable >= answer.high_watermark:
            self.blocked_ms = _UNKNOWN
        elif self.blocked_ms < 0 or before is None or before.last_stable != answer.last_stable:
            self.blocked_ms = at_ms
        return self.history.note(at_ms, answer.high_watermark)


class LagBook:
    """Not safe for several threads at once.

    ends: by partition. moved: by group and partition. groups: the newest sums. series: by group, of 24 hours, each
    sample as three numbers; -1 stands for an unknown one.
    """

    # A snapshot has the same object of a group that has not changed.
    _positions: dict[str, tuple[LiveGroup, dict[Partition, int]]]

    def __init__(self) -> None:
        self.ends: dict[Partition, PartitionEnds] = {}
        self.moved: dict[str, dict[Partition, Movement]] = {}
        self.groups: dict[str, GroupLag] = {}
        self.series: dict[str, array[int]] = {}
        self._positions = {}

    def positions(self, group: LiveGroup) -> dict[Partition, int]:
        """Return `positions_of`, which takes its time for many partitions, once for each change of the group."""
        known = self._positions.get(group.group)
        if known is None or known[0] is not group:
            known = self._positions[group.group] = (group, positions_of(group))
        return known[1]

    def due(self, wanted: Collection[Partition], most: int) -> list[Partition]:
        """Return the partitions of the next round, those first that were asked longest ago; forget the others."""
        for at in self.ends.keys() - set(wanted):
            del self.ends[at]
        by_age = sorted(wanted, key=lambda at: (self.ends[at].asked_ms if at in self.ends else _UNKNOWN, at))
        return by_age[:most]

    def note(
        self,
        groups: Iterable[LiveGroup],
        answers: Mapping[Partition, Answer],
        *,
        at_ms: int,
        period_ms: int,
        paused: Mapping[str, str],
    ) -> None:
        """Add the answers of one round, which was asked at `at_ms`.

        groups: all that are sampled. paused: pipelines by group. period_ms: the time between two rounds of a partition.
        """
        renewed = {
            at
            for at, one in answers.items()
            if not self.ends.setdefault(at, PartitionEnds(EndHistory())).note(one, at_ms)
        }
        now_ms = at_ms
        seen: set[str] = set()
        for group in groups:
            seen.add(group.group)
            positions = self.positions(group)
            moved = self.moved.setdefault(group.group, {})
            for at in moved.keys() - positions.keys():
                del moved[at]
            for at, committed in positions.items():
                if at in answers:
                    self._move(moved, at, committed, at in renewed, group, now_ms, period_ms)
            if positions.keys() & answers.keys() or group.group not in self.groups:
                self._sum(group, positions, paused.get(group.group), now_ms, period_ms)
        for name in self.moved.keys() - seen:
            del self.moved[name]
            self.groups.pop(name, None)
        for name in self._positions.keys() - seen:
            del self._positions[name]
        for name in [name for name, one in self.series.items() if name not in seen and one[-3] < now_ms - KEPT_MS]:
            del self.series[name]

    def lags(
        self,
        group: LiveGroup,
        *,
        now_ms: int,
        period_ms: int,
        paused: str | None = None,
        live: Mapping[Partition, Answer] | None = None,
    ) -> list[PartitionLag]:
        """Return a group's partitions, by topic and number. live: newer answers than those of the last round."""
        newer = live or {}
        return [
            self._lag(
                group, at, committed, newer.get(at), now_ms=now_ms, period_ms=period_ms, is_paused=paused is not None
            )
            for at, committed in sorted(self.positions(group).items())
        ]

    def history_of(self, group: str) -> list[LagSample]:
        """Return the samples of the last 24 hours, oldest first."""
        row = self.series.get(group, array("q"))
        return [
            LagSample(row[at], *(None if value < 0 else value for value in row[at + 1 : at + 3]))
            for at in range(0, len(row), 3)
        ]

    def unclear(self, groups: Iterable[LiveGroup], most: int) -> dict[Partition, Stretch]:
        """Return short ranges that may have only markers: neither the group nor the end has moved since a sample.

        A range begins at a committed offset. Each partition has one at most.
        """
        found: dict[Partition, Stretch] = {}
        for group in groups:
            for at, moved in self.moved.get(group.group, {}).items():
                last = self.ends[at].last if at in self.ends else None
                if last is None or moved.samples < 2 or self.ends[at].problem or at in found:
                    continue
                until = last.last_stable
                is_short = 0 < until - moved.committed <= MOST_QUIET_OFFSETS
                is_still = (
                    moved.advanced_ms < moved.sampled_ms
                    and self.ends[at].history.ends[-2:].tolist() == [last.high_watermark] * 2
                )
                if is_short and is_still and not moved.is_quiet(until) and not moved.is_read(until):
                    found[at] = (moved.committed, until)
                    if len(found) == most:
                        return found
        return found

    def note_content(self, stretches: Mapping[Partition, Stretch], is_quiet: Mapping[Partition, bool]) -> None:
        """Remember which ranges have no record that a consumer receives. An unanswered one is asked again."""
        for moved in self.moved.values():
            for at, quiet in is_quiet.items():
                one = moved.get(at)
                if one is not None and one.committed == stretches[at][0]:
                    one.note_content(stretches[at][1], is_quiet=quiet)

    def report(self, cluster: str, *, at_ms: int, sampled: int, period_ms: int, problem: str = "") -> LagReport:
        return LagReport(
            cluster=cluster,
            at_ms=at_ms,
            groups=dict(self.groups),
            sampled=sampled,
            partitions=len(self.ends),
            period_ms=period_ms,
            unanswered=sum(bool(one.problem) for one in self.ends.values()),
            problem=problem,
        )

    def _move(
        self,
        moved: dict[Partition, Movement],
        at: Partition,
        committed: int,
        is_renewed: bool,
        group: LiveGroup,
        now_ms: int,
        period_ms: int,
    ) -> None:
        ends = self.ends[at]
        if ends.last is None or ends.problem:
            return
        before = moved.get(at)
        if before is None or is_renewed:
            moved[at] = Movement(committed, now_ms, now_ms)
            return
        passed = ends.history.passed(before.committed)
        before.note(
            committed,
            ends.last.high_watermark,
            waiting_ms=now_ms if passed is None else passed.at_ms,
            now_ms=now_ms,
            period_ms=period_ms,
            has_members=group.member_count > 0,
        )

    def _lag(
        self,
        group: LiveGroup,
        at: Partition,
        committed: int,
        live: Answer | None,
        *,
        now_ms: int,
        period_ms: int,
        is_paused: bool,
    ) -> PartitionLag:
        ends, moved = self.ends.get(at), self.moved.get(group.group, {}).get(at)
        is_live = isinstance(live, StableEnd)
        answer = live if isinstance(live, StableEnd) else None if ends is None else ends.last
        problem = problem_of(live) if isinstance(live, Refused) else "" if is_live or ends is None else ends.problem
        if answer is None:
            return PartitionLag(at=at, state=LagState.UNKNOWN, committed=committed, problem=problem)
        unread = max(0, answer.high_watermark - committed)
        same = moved if moved is not None and moved.committed == committed else None
        is_quiet = same is not None and same.is_quiet(answer.high_watermark)
        lag = 0 if is_quiet else unread
        passed = None if ends is None or not lag else ends.history.passed(committed)
        # Records that came after the newest sample have waited for less than the time since then.
        waiting_ms = 0 if passed is None else max(0, now_ms - passed.at_ms)
        has_members = group.member_count > 0
        state = LagState.UNKNOWN if lag else LagState.HEALTHY
        if moved is not None and not problem:
            blocked_ms = 0 if ends is None or ends.blocked_ms < 0 else now_ms - ends.blocked_ms
            situation = Situation(
                end=answer.high_watermark,
                last_stable=answer.last_stable,
                blocked_ms=blocked_ms,
                waiting_ms=waiting_ms,
                has_members=has_members,
            )
            shown = moved if same is not None else moved.moved_to(committed, now_ms)
            state = judge(shown, situation, now_ms=now_ms, period_ms=period_ms)
        if problem and lag:
            state = LagState.UNKNOWN
        is_growing = moved is not None and moved.growing_ms >= 0 and has_members and lag > 0
        return PartitionLag(
            at=at,
            state=LagState.PAUSED if is_paused and state is not LagState.UNKNOWN else state,
            committed=committed,
            end=answer.high_watermark,
            last_stable=answer.last_stable,
            unread=unread,
            lag_records=lag,
            blocked=max(0, answer.high_watermark - max(committed, answer.last_stable)),
            lag_ms=waiting_ms,
            is_bound=passed is not None and passed.is_bound,
            since_ms=None if moved is None else now_ms if same is None else moved.advanced_ms,
            growing_ms=moved.growing_ms if moved is not None and is_growing else None,
            rate=None if moved is None or moved.rate < 0 else moved.rate,
            as_of_ms=now_ms if is_live else None if ends is None else ends.as_of_ms,
            problem=problem,
        )

    def _sum(
        self, group: LiveGroup, positions: Collection[Partition], paused: str | None, now_ms: int, period_ms: int
    ) -> None:
        if not positions:
            self.groups.pop(group.group, None)
            return
        found = self.summed(
            group, self.lags(group, now_ms=now_ms, period_ms=period_ms, paused=paused), paused, now_ms, period_ms
        )
        self.groups[group.group] = found
        _keep(self.series.setdefault(group.group, array("q")), found, now_ms)

    def summed(
        self, group: LiveGroup, rows: Iterable[PartitionLag], paused: str | None, now_ms: int, period_ms: int
    ) -> GroupLag:
        """Return the sum of `lags`."""
        moved = self.moved.get(group.group, {}).values()
        return group_lag(
            group.group,
            rows,
            state_before=self.groups.get(group.group),
            has_members=group.member_count > 0,
            is_still=all(now_ms - one.advanced_ms > one.patience_ms(period_ms) for one in moved),
            paused=paused,
            now_ms=now_ms,
        )


def problem_of(refused: Refused) -> str:
    """Return a sentence; a refusal without a question is one already."""
    return refused.sentence if refused.question else refused.error


def positions_of(group: LiveGroup) -> dict[Partition, int]:
    """Return a group's committed offsets, without the markers of a query, which are no positions."""
    return {
        Partition(*at): one.commit.offset
        for at, one in group.offsets.items()
        if one.commit.offset >= 0
        and not (one.commit.metadata and marker_of(one.commit.offset, one.commit.metadata) is not None)
    }


def is_sampled(group: LiveGroup, *, since_ms: int) -> bool:
    """Return whether it has members, or has committed since then."""
    return group.member_count > 0 or any(one.commit.commit_ms >= since_ms for one in group.offsets.values())


def _keep(row: array[int], found: GroupLag, now_ms: int) -> None:
    """Add the lag to its time of SERIES_MS, of which the greatest lag is kept; drop samples older than a day."""
    at_ms = now_ms - now_ms % SERIES_MS + SERIES_MS
    lag, lag_ms = (_UNKNOWN if value is None else value for value in (found.lag_records, found.lag_ms))
    if row and row[-3] == at_ms:
        row[-2], row[-1] = max(row[-2], lag), max(row[-1], lag_ms)
        return
    if row and row[-3] > at_ms:
        # The clock went back.
        del row[:]
    row.extend((at_ms, lag, lag_ms))
    while row[0] < at_ms - KEPT_MS:
        del row[:3]


def gaps_filled(samples: Iterable[LagSample]) -> list[LagSample]:
    """Return the samples with an unknown one in each gap, so that a chart shows it."""
    rows = list(samples)
    found = rows[:1]
    for before, after in pairwise(rows):
        if after.at_ms - before.at_ms > SERIES_MS:
            found.append(LagSample(before.at_ms + SERIES_MS, None, None))
        found.append(after)
    return found
