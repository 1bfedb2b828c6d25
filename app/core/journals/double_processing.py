"""Find offsets that two producers of one group processed, by the committed transactional offsets of its journal.

A committed transactional offset N of a producer says: its reader processed everything below N, from the reader's start.
The journal does not have that start. It is the producer's own previous commit, or an offset of the group that the
reader fetched. Two successive commits of one producer, without a commit of another one between them, are therefore a
certain range. These patterns are evidence:

    REWOUND      a commit below the committed offset: its reader did not begin at that offset
    SAME_END     another producer commits the same offset, though the group's membership did not change in between
    INTERLEAVED  a producer commits again after another one, though the membership did not change in between
    RESET        a commit without a producer below the committed offset

Nothing is concluded from aborted offsets, tombstones, a topic with another id, and commits before a gap of the reading.
Offsets that differ by 1 count as equal, since only a transaction marker may be between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.journals.group_values.offsets import NO_TOPIC_ID, OffsetCommit

MAX_FINDINGS = 20
"""For each group; the weakest and oldest ones are dropped first, and stay counted."""

_LAST_EPOCHS = 32_765
"""From this epoch on a coordinator may give the id's next transaction another producer id (KIP-360, KIP-890)."""


class OverlapPattern(StrEnum):
    """The patterns above."""

    REWOUND = "rewound"
    SAME_END = "same_end"
    INTERLEAVED = "interleaved"
    RESET = "reset"


class OverlapGrade(StrEnum):
    """PROVED: certain ranges of two commits overlap.

    LIKELY: a reader did not begin where the group was, or two of them had the partition during one membership.
    POSSIBLE: an application with several producers for each reader leaves the same commits. INTENDED: an offset that
    was set back without a producer, so reading again was requested.
    """

    PROVED = "proved"
    LIKELY = "likely"
    POSSIBLE = "possible"
    INTENDED = "intended"

    @property
    def is_problem(self) -> bool:
        return self in (OverlapGrade.PROVED, OverlapGrade.LIKELY)


class ProducerCommit(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A committed offset: the position in the input, and its record in the journal. producer_id -1: no producer."""

    offset: int
    at_ms: int
    journal_offset: int
    producer_id: int = -1
    producer_epoch: int = -1

    def shifted(self, shift_ms: int) -> ProducerCommit:
        return msgspec.structs.replace(self, at_ms=self.at_ms + shift_ms) if self.at_ms >= 0 else self


class DoubleProcessing(msgspec.Struct, frozen=True, gc=False):
    """Evidence that offsets of one partition were processed twice.

    The offsets are those from `from_offset` up to `to_offset`, which is excluded. from_offset -1: not known.
    first, second: the two commits, in the order of their records. again: the later commit of the second producer that
    proved the overlap. members: of the group at that time.
    """

    pattern: OverlapPattern
    grade: OverlapGrade
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    first: ProducerCommit
    second: ProducerCommit
    again: ProducerCommit | None = None
    members: int = 0

    @property
    def newest(self) -> ProducerCommit:
        return self.again or self.second

    def shifted(self, shift_ms: int) -> DoubleProcessing:
        """Return the same with times that are later by `shift_ms`."""
        again = None if self.again is None else self.again.shifted(shift_ms)
        first, second = self.first.shifted(shift_ms), self.second.shifted(shift_ms)
        return msgspec.structs.replace(self, first=first, second=second, again=again)


class CommitRun(msgspec.Struct, gc=False, array_like=True):
    """Successive commits of one producer for a partition. It certainly processed from `begin` up to the newest one.

    before: the committed offset before the newest one that advanced; -1: not known.
    """

    begin: int
    before: int
    newest: ProducerCommit

    @property
    def end(self) -> int:
        return self.newest.offset


class CommitHistory(msgspec.Struct, gc=False, array_like=True):
    """The state of one partition: the newest run, and the run with the highest offset if the newest is below it.

    previous: the producer before that of the newest run. finding: the journal offset of the open REWOUND finding.
    """

    last: CommitRun
    topic_id: str = NO_TOPIC_ID
    top: CommitRun | None = None
    previous: int = -1
    finding: int = -1
    is_shared: bool = False


class DecidedCommit(NamedTuple):
    """An offset whose transaction committed, with its topic and partition."""

    at: tuple[str, int]
    commit: ProducerCommit
    topic_id: str = NO_TOPIC_ID


class CommitWatch(msgspec.Struct):
    """The evidence of one group, and the bounded state from which later commits are judged.

    counts: all findings by grade, including dropped ones. membership_at: the newest record of the group that is no
    offset. turns: forward changes of the producer without a change of the membership.
    """

    histories: dict[tuple[str, int], CommitHistory] = {}
    findings: tuple[DoubleProcessing, ...] = ()
    counts: dict[OverlapGrade, int] = {}
    membership_at: int = -1
    turns: int = 0

    def take(self, decided: Iterable[DecidedCommit], *, members: int, whole_since: int = 0) -> None:
        """Take the offsets of one committed transaction.

        members: of the group now. whole_since: every record of the journal was read from this offset on. Before it,
        compaction or deletion may have removed a reset, a rebalance or a commit.
        """
        rest: list[tuple[tuple[str, int], ProducerCommit, CommitHistory]] = []
        for at, commit, topic_id in decided:
            history = self.histories.get(at)
            if (
                history is None
                or history.last.newest.journal_offset < whole_since
                or _is_another_topic(history.topic_id, topic_id)
            ):
                self.histories[at] = CommitHistory(CommitRun(commit.offset, -1, commit), topic_id)
            elif commit.journal_offset > history.last.newest.journal_offset and commit.offset > history.last.end:
                self._advance(at, commit, history, members=members)
            else:
                rest.append((at, commit, history))
        # Later, since one partition that advances shows that producers take turns.
        for at, commit, history in rest:
            if commit.journal_offset < history.last.newest.journal_offset:
                self._take_late(at, commit, history, members=members)
            elif history.last.end - commit.offset <= 1:
                self._repeat(at, commit, history, members=members)
            else:
                self._go_back(at, commit, history, members=members)

    def set_without_producer(
        self, topic: str, partition: int, value: OffsetCommit, *, journal_offset: int, members: int, whole_since: int
    ) -> None:
        """An offset was committed outside of a transaction: later commits are compared with those after it only."""
        history = self.histories.pop((topic, partition), None)
        if history is None or history.last.newest.journal_offset < whole_since:
            return
        if _is_another_topic(history.topic_id, value.topic_id):
            return
        reached = max((history.last, history.top or history.last), key=lambda run: run.end)
        if reached.end - value.offset > 1:
            self._add(
                DoubleProcessing(
                    pattern=OverlapPattern.RESET,
                    grade=OverlapGrade.INTENDED,
                    topic=topic,
                    partition=partition,
                    from_offset=value.offset,
                    to_offset=reached.end,
                    first=reached.newest,
                    second=ProducerCommit(value.offset, value.commit_ms, journal_offset),
                    members=members,
                )
            )

    def forget(self, topic: str, partition: int) -> None:
        """The offset was deleted or has expired."""
        self.histories.pop((topic, partition), None)

    def shown(self) -> CommitWatch:
        """Return the findings without the state."""
        return CommitWatch(findings=self.findings, counts=dict(self.counts))

    def shifted(self, shift_ms: int) -> CommitWatch:
        """Return it with times that are later by `shift_ms`."""
        return msgspec.structs.replace(self, findings=tuple(one.shifted(shift_ms) for one in self.findings))

    def _advance(self, at: tuple[str, int], commit: ProducerCommit, history: CommitHistory, *, members: int) -> None:
        last, top = history.last, history.top
        if _is_same_producer(last.newest, commit):
            if top is not None:
                self._prove(history, CommitRun(last.end, last.end, commit), top)
            last.before, last.newest = last.end, commit
        else:
            if members and not self._has_moved_since(last.newest):
                self.turns += 1
                if commit.producer_id == history.previous and not history.is_shared:
                    history.is_shared = True
                    self._add_pair(OverlapPattern.INTERLEAVED, at, last, commit, OverlapGrade.POSSIBLE, members)
            # Its reader began at one of the offsets committed before, so at the highest one or below it.
            begin = last.end if top is None else top.end if top.end <= commit.offset else commit.offset
            history.previous = last.newest.producer_id
            history.last = CommitRun(begin, last.end, commit)
        if top is not None and top.end <= commit.offset:
            history.top, history.finding = None, -1

    def _repeat(self, at: tuple[str, int], commit: ProducerCommit, history: CommitHistory, *, members: int) -> None:
        last = history.last
        if _is_same_producer(last.newest, commit):
            last.newest = msgspec.structs.replace(last.newest, journal_offset=commit.journal_offset)
            return
        if not self._has_moved_since(last.newest):
            self._add_pair(OverlapPattern.SAME_END, at, last, commit, self._grade_of_same_end(members), members)
        history.previous = last.newest.producer_id
        history.last = CommitRun(commit.offset, last.before, commit)

    def _go_back(self, at: tuple[str, int], commit: ProducerCommit, history: CommitHistory, *, members: int) -> None:
        last = history.last
        self._add_pair(OverlapPattern.REWOUND, at, last, commit, OverlapGrade.LIKELY, members)
        history.top = max((last, history.top or last), key=lambda run: run.end)
        history.finding = commit.journal_offset
        history.previous = last.newest.producer_id
        history.last = CommitRun(commit.offset, -1, commit)

    def _take_late(self, at: tuple[str, int], commit: ProducerCommit, history: CommitHistory, *, members: int) -> None:
        """It was sent before the newest commit, and decided after it: both transactions were open at once."""
        last = history.last
        if last.newest.producer_id == commit.producer_id:
            return
        run = CommitRun(commit.offset, -1, commit)
        if abs(commit.offset - last.end) <= 1:
            if not self._has_moved_since(commit):
                grade = self._grade_of_same_end(members)
                self._add_pair(OverlapPattern.SAME_END, at, run, last.newest, grade, members)
        elif commit.offset > last.end and (history.top is None or commit.offset > history.top.end):
            self._add_pair(OverlapPattern.REWOUND, at, run, last.newest, OverlapGrade.LIKELY, members)
            history.top, history.finding = run, last.newest.journal_offset

    def _prove(self, history: CommitHistory, step: CommitRun, top: CommitRun) -> None:
        """The producer that was behind has continued: it processed every record since its previous commit."""
        begin, end = max(step.begin, top.begin), min(step.end, top.end)
        if end - begin <= 1:
            return
        for index, one in enumerate(self.findings):
            if one.second.journal_offset != history.finding or one.pattern is not OverlapPattern.REWOUND:
                continue
            is_new = one.grade is not OverlapGrade.PROVED
            proved = msgspec.structs.replace(
                one,
                grade=OverlapGrade.PROVED,
                from_offset=begin if is_new else min(begin, one.from_offset),
                to_offset=end,
                again=step.newest,
            )
            self.findings = (*self.findings[:index], proved, *self.findings[index + 1 :])
            if is_new:
                self.counts[one.grade] -= 1
                self.counts[OverlapGrade.PROVED] = self.counts.get(OverlapGrade.PROVED, 0) + 1

    def _has_moved_since(self, commit: ProducerCommit) -> bool:
        """Return True if the partition may have another owner since then."""
        return self.membership_at > commit.journal_offset

    def _grade_of_same_end(self, members: int) -> OverlapGrade:
        return OverlapGrade.LIKELY if members and not self.turns else OverlapGrade.POSSIBLE

    def _add_pair(
        self,
        pattern: OverlapPattern,
        at: tuple[str, int],
        run: CommitRun,
        second: ProducerCommit,
        grade: OverlapGrade,
        members: int,
    ) -> None:
        is_back = pattern is OverlapPattern.REWOUND
        self._add(
            DoubleProcessing(
                pattern=pattern,
                grade=grade,
                topic=at[0],
                partition=at[1],
                from_offset=second.offset if is_back else run.before,
                to_offset=run.end,
                first=run.newest,
                second=second,
                members=members,
            )
        )

    def _add(self, found: DoubleProcessing) -> None:
        self.counts[found.grade] = self.counts.get(found.grade, 0) + 1
        kept = [*self.findings, found]
        if len(kept) > MAX_FINDINGS:
            weak = next((index for index, one in enumerate(kept[:-1]) if not one.grade.is_problem), 0)
            del kept[weak]
        self.findings = tuple(kept)


def _is_same_producer(before: ProducerCommit, after: ProducerCommit) -> bool:
    """Return True for the same producer id, and for the next one of the same transactional id after its last epoch."""
    if before.producer_id == after.producer_id:
        return True
    return before.producer_epoch >= _LAST_EPOCHS and after.producer_epoch <= 1


def _is_another_topic(one: str, other: str) -> bool:
    return one != other and NO_TOPIC_ID not in (one, other)
