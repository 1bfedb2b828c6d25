"""Where a partition begins that has no committed offset, or one that its log no longer holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import KafkaError

from app.core.pipelines.pipeline import StartPosition
from app.core.runs.recorded_offset import lost_sentence, ways_out
from app.core.wire.heartbeat import EventKind
from app.core.wire.offset_events import Found
from workers.loop.errors import AbortableError, FatalError, PipelineStopError, RetriableError
from workers.loop.group.membership import Announce, LogBounds, Membership
from workers.loop.group.ownership import Partition
from workers.loop.slices import SLICE_S

_BETWEEN_LOOKS_S = 0.2
_NOT_THERE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's public names begin so
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)


class CommitStarts(Protocol):
    """Commits offsets without outputs; `for_others` are of partitions that somebody else owns, or nobody.

    together: all of them or none, whatever number of producers there is, by that of the first of `starts`. False: it
    has none now, or its commit went wrong, and is settled there: ask again.
    confirmed: called when the broker has said that they are committed: before it returns, or (at_least_once) in a later
    poll, or never.
    """

    def __call__(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        together: bool,
        confirmed: Callable[[], None],
    ) -> bool: ...


class Starting:
    """Finds out where stopped partitions go on, commits that, and only then lets them be read.

    The client resets no position by itself (`auto.offset.reset=error`): a reset that is on for ever skips, in silence,
    what an idle partition gets while nobody has it. It stops at the partition instead, and here is decided:

      nothing committed, start_position earliest   the beginning of its log
      nothing committed, start_position latest     once for the group, below; later the beginning of its log
      nothing committed, but it was once           the pipeline stops: the group has lost its offsets (see Remembered)
      committed before the log's beginning         the beginning, and an event that says what is gone unread: stopping
                                                   would bring nothing back, and more would go meanwhile
      committed behind the log's end               the pipeline stops: the log was cut or made anew, and whether its
                                                   records have been processed is not to be known; so too when it was
                                                   behind the end as the client stopped, and the log has grown since,
                                                   or the client finds that the epoch of its offset ended before it

    `latest` is resolved once, for all partitions together, when no partition of any source topic has a committed
    offset. One task does it, the owner of the first partition of the first topic (by name), in one transaction that
    ends beyond doubt before anybody reads a record; the others wait until they see it. Its offsets are of partitions
    that others own, but nobody has begun there, and its own ownership and generation are what the broker judges.
    From then on a partition without an offset is one that came later, and is read from its beginning.
    """

    def __init__(
        self,
        membership: Membership,
        *,
        start_position: StartPosition,
        source_topics: Sequence[str],
        pipeline: str,
        group: str,
        commit_starts: CommitStarts,
        announce: Announce,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._membership = membership
        self._start_position = start_position
        self._source_topics = sorted(source_topics)
        self._pipeline = pipeline
        self._group = group
        self._commit_starts = commit_starts
        self._announce = announce
        self._clock = clock
        self._not_before = 0.0
        self._has_told_missing = False
        self._has_begun = start_position is StartPosition.EARLIEST
        self._await_beginning: set[Partition] = set()

    @property
    def is_due(self) -> bool:
        """True while a partition is stopped, a little after the last look."""
        return bool(self._membership.stopped) and self._clock() >= self._not_before

    def step(self, stopped: frozenset[Partition]) -> None:
        """Decide what can be decided now. Nothing may be open: what was read must be committed.

        Args:
            stopped: those of the stopped partitions that have a producer; the others go on being stopped.

        Raises:
            PipelineStopError: a log ends before its committed offset, or the group has lost what was committed.
            LoopError: as the commit says; the partitions stay stopped, and are looked at again.
        """
        self._not_before = self._clock() + _BETWEEN_LOOKS_S
        try:
            # Asked once for all: between two answers somebody may begin the group.
            everything = frozenset[Partition]() if self._has_begun else self._all_partitions()
            committed = self._membership.committed(stopped | everything, timeout_s=SLICE_S)
            self._has_begun = self._has_begun or any(found.offset is not None for found in committed.values())
            logs = self._membership.bounds(stopped if self._has_begun else everything, timeout_s=SLICE_S)
        except (RetriableError, AbortableError):
            # Undecided offsets, a slow broker, a partition between two leaders: not known yet.
            return
        except FatalError as error:
            if error.code not in _NOT_THERE:
                raise
            # A topic that was deleted: the group takes its partitions away.
            return
        if self._has_begun:
            anew = {name: logs[name].start for name in stopped if committed[name].offset is None}
            if not self._may_begin(anew):
                return
            self._go_on({name: committed[name].offset for name in stopped}, logs)
            self._await_beginning.clear()
            return
        self._await_beginning |= stopped
        first = (self._source_topics[0], 0)
        may_commit = first in stopped or first not in self._membership.stopped
        if (
            first in self._membership.ownership.owned
            and may_commit
            and self._may_begin({name: log.end for name, log in logs.items()})
        ):
            self._begin(stopped, logs)

    def _may_begin(self, begins: Mapping[Partition, int]) -> bool:
        """Whether partitions without a committed offset may begin there; False: not known yet.

        Raises:
            PipelineStopError: the group had committed offsets in them, and has lost them.
        """
        lost = self._membership.remembered.lost(begins) if begins else ()
        if lost:
            raise PipelineStopError(f"{lost_sentence(self._group, lost)}. {ways_out(self._pipeline)}")
        return lost is not None

    def _all_partitions(self) -> frozenset[Partition]:
        counts = self._membership.partition_counts(self._source_topics, timeout_s=SLICE_S)
        first = self._source_topics[0]
        if not counts[first] and not self._has_told_missing:
            self._has_told_missing = True
            self._announce(
                EventKind.ERROR,
                f"nothing is read yet: where the end is, is found out by the task that has {first}-0, and there is no "
                f"topic {first}. Create it, or take it out of the source topics",
            )
        return frozenset((topic, number) for topic, count in counts.items() for number in range(count))

    def _begin(self, stopped: frozenset[Partition], logs: Mapping[Partition, LogBounds]) -> None:
        """Resolve `latest` for the group."""
        ends = {name: log.end for name, log in logs.items()}
        mine = self._membership.ownership.owned & ends.keys()
        for name in mine:
            self._membership.recorder.positioned(name, ends[name], Found.NOTHING_COMMITTED)
        for_others = {name: end for name, end in ends.items() if name not in mine}
        for name, end in for_others.items():
            # Whoever gets it later finds it committed, and could not say that it begins there.
            self._membership.recorder.begun_for_others(name, end)
        is_sent = self._commit_starts(
            {name: ends[name] for name in mine},
            for_others=for_others,
            together=True,
            confirmed=self._note_beginning,
        )
        if not is_sent:
            return
        said = ", ".join(f"{topic}-{number} at {ends[topic, number]}" for topic, number in sorted(ends))
        self._announce(EventKind.ASSIGNED, f"the group has no committed offsets and begins at the end: {said}")
        self._membership.restart(stopped & mine)

    def _note_beginning(self) -> None:
        self._has_begun = True
        self._await_beginning.clear()

    def _go_on(self, committed: Mapping[Partition, int | None], logs: Mapping[Partition, LogBounds]) -> None:
        starts: dict[Partition, int] = {}
        for partition, offset in committed.items():
            start = self._start(partition, offset, logs[partition])
            if start is not None:
                starts[partition] = start
                found = Found.NOTHING_COMMITTED if offset is None else Found.GONE_UNREAD
                self._membership.recorder.positioned(partition, start, found, gone_from=offset)
            elif offset is not None and (
                partition in self._await_beginning or self._membership.stopped_at(partition) is None
            ):
                # Another task has begun the group here: nothing was committed before that, or the client would not
                # have stopped without an offset.
                self._membership.recorder.positioned(partition, offset, Found.NOTHING_COMMITTED)
        if starts:
            self._commit_starts(starts, for_others={}, together=False, confirmed=self._note_beginning)
        self._membership.restart(committed)

    def _start(self, partition: Partition, committed: int | None, log: LogBounds) -> int | None:
        """The offset to commit before reading goes on; None: what is committed is good."""
        name = f"{partition[0]}-{partition[1]}"
        at = self._membership.stopped_at(partition)
        if committed is None:
            if self._start_position is StartPosition.LATEST:
                self._announce(
                    EventKind.ASSIGNED,
                    f"{name} has no committed offset although the group has begun: it is read from its beginning, "
                    f"{log.start}",
                    partitions=(name,),
                )
            return log.start
        cut = self._membership.truncation(partition)
        if cut is not None:
            raise PipelineStopError(
                f"the log of {name} was cut before the committed offset {committed} and has other records there now "
                f"(unclean leader election; the client says: {cut}). Reset its offset, to {log.start} to process all "
                "that is there now"
            )
        if committed > log.end or (at is not None and at >= log.start):
            # The log's beginning only moves on: what it did not hold then, and is not before its beginning now, was
            # behind its end.
            raise PipelineStopError(
                f"the log of {name} ends at {log.end}, and has ended before {max(committed, at or 0)}, where reading "
                "was to go on: the topic was deleted and created anew, or its log was cut, and which of its records "
                f"have been processed is not to be known. Stop the pipeline and reset its offset there, to {log.start} "
                "to process all that is there now"
            )
        if committed >= log.start:
            return None
        self._announce(
            EventKind.ERROR,
            f"{name}: {log.start - committed} offsets are gone unread, from {committed} to {log.start - 1}: the "
            f"topic's retention or somebody has deleted their records. Reading goes on at {log.start}",
            partitions=(name,),
        )
        return log.start
