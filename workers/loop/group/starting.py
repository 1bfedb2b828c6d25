"""Start positions of partitions without a committed offset, or with one that the log no longer holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import StartPosition
from app.core.runs.recorded_offset import lost_sentence, ways_out
from app.core.wire.heartbeat import EventKind
from app.core.wire.offset_events import StartReason
from workers.loop.errors import AbortableError, FatalError, PipelineStopError, RetriableError
from workers.loop.group.membership import Announce, Membership, PartitionBounds
from workers.loop.slices import SLICE_S

_BETWEEN_LOOKS_S = 0.2
_DOUBTED_FOR_S = 5.0
"""A log's end before the committed offset is believed when it was seen for so long.

A former leader that was frozen or cut off answers from its old log until it learns of the new leader.
"""
_NOT_THERE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's public names begin so
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)


class CommitStarts(Protocol):
    """Commits offsets without outputs; `for_others` are of partitions that this task does not own.

    together: all of them or none, independent of the number of producers, by that of the first of `starts`. False: it
    has none now, or its commit failed and it recovers; call it again.
    confirmed: called when the broker has confirmed the commit: before this returns, or (at_least_once) in a later
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
    """Decides where stopped partitions continue, commits that, and only then lets them be read.

    The client resets no position by itself (`auto.offset.reset=error`). A permanent reset skips records undetected that
    an unowned partition receives. Instead the client stops at the partition, and the decision is made here:

      nothing committed, start_position earliest   log start offset
      nothing committed, start_position latest     once for the group, below; later the log start offset
      nothing committed, but an offset is recorded the pipeline stops: the group has lost its offsets (`Remembered`)
      committed before the log start offset        the log start offset, and an event with the deleted offsets: a stop
                                                   would restore nothing, and more would be deleted meanwhile
      committed beyond the log's end, for some     the pipeline stops: the log was cut or recreated, and its processed
      seconds, or its epoch ended before it        records cannot be determined
      beyond the end when the client stopped, and  a former leader may have answered, or the log was cut and has grown:
      within the log now                           read, but nothing is committed before the leader has reported the end
                                                   of the offset's epoch. An offset without an epoch stops the pipeline

    `latest` is resolved once, for all partitions together, when no partition of any source topic has a committed
    offset. One task does it: the owner of the first partition of the first topic (by name). Its one transaction has a
    known outcome before any task reads a record; the other tasks wait until they see it. Its offsets are also of
    partitions that others own, but no task has begun there, and the broker checks only its own ownership and
    generation. From then on a partition without an offset is a later one, and is read from its beginning.
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
        self._ends_before: dict[Partition, tuple[int, float]] = {}
        self._told_doubts: dict[Partition, int] = {}

    @property
    def is_due(self) -> bool:
        """True while a partition is stopped, a little after the last check."""
        return bool(self._membership.stopped) and self._clock() >= self._not_before

    def step(self, stopped: frozenset[Partition]) -> None:
        """Decide the partitions that can be decided now. Nothing may be open: records that were read must be committed.

        Args:
            stopped: those of the stopped partitions that have a producer; the others stay stopped.

        Raises:
            PipelineStopError: a log ends before its committed offset, or the group has lost its committed offsets.
            LoopError: from the commit; the partitions stay stopped, and are checked again.
        """
        self._not_before = self._clock() + _BETWEEN_LOOKS_S
        try:
            # One request for all: between two answers another task may begin the group.
            everything = frozenset[Partition]() if self._has_begun else self._all_partitions()
            committed = self._membership.committed(stopped | everything, timeout_s=SLICE_S)
            self._has_begun = self._has_begun or any(found.offset is not None for found in committed.values())
            logs = self._membership.bounds(stopped if self._has_begun else everything, timeout_s=SLICE_S)
        except (RetriableError, AbortableError):
            # Pending offsets, a slow broker, a partition between two leaders: not known yet.
            return
        except FatalError as error:
            if error.code not in _NOT_THERE:
                raise
            # A topic that was deleted: the group revokes its partitions.
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
        """True if partitions without a committed offset may start there; False: not known yet.

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
                f"nothing is read yet: the task that owns {first}-0 decides where the end is, and there is no topic "
                f"{first}. Create it, or remove it from the source topics",
            )
        return frozenset(Partition(topic, number) for topic, count in counts.items() for number in range(count))

    def _begin(self, stopped: frozenset[Partition], logs: Mapping[Partition, PartitionBounds]) -> None:
        """Resolve `latest` for the group."""
        ends = {name: log.end for name, log in logs.items()}
        mine = self._membership.ownership.owned & ends.keys()
        for name in mine:
            self._membership.recorder.positioned(name, ends[name], StartReason.NOTHING_COMMITTED)
        for_others = {name: end for name, end in ends.items() if name not in mine}
        for name, end in for_others.items():
            # Its later owner finds it committed, and could not report that it begins there.
            self._membership.recorder.begun_for_others(name, end)
        is_sent = self._commit_starts(
            {name: ends[name] for name in mine},
            for_others=for_others,
            together=True,
            confirmed=self._note_beginning,
        )
        if not is_sent:
            return
        said = ", ".join(f"{topic}-{number} at {end}" for (topic, number), end in sorted(ends.items()))
        self._announce(EventKind.ASSIGNED, f"the group has no committed offsets and begins at the end: {said}")
        self._membership.restart(stopped & mine)

    def _note_beginning(self) -> None:
        self._has_begun = True
        self._await_beginning.clear()

    def _go_on(self, committed: Mapping[Partition, int | None], logs: Mapping[Partition, PartitionBounds]) -> None:
        starts: dict[Partition, int] = {}
        in_doubt = {at for at, offset in committed.items() if self._is_in_doubt(at, offset, logs[at])}
        committed = {at: offset for at, offset in committed.items() if at not in in_doubt}
        if not committed:
            return
        for partition, offset in committed.items():
            start = self._start(partition, offset, logs[partition])
            if start is not None:
                starts[partition] = start
                found = StartReason.NOTHING_COMMITTED if offset is None else StartReason.GONE_UNREAD
                self._membership.recorder.positioned(partition, start, found, gone_from=offset)
            elif offset is not None and (
                partition in self._await_beginning or self._membership.stopped_at(partition) is None
            ):
                # Another task has begun the group here: nothing was committed before that, or the client would not
                # have stopped without an offset.
                self._membership.recorder.positioned(partition, offset, StartReason.NOTHING_COMMITTED)
        if starts:
            self._commit_starts(starts, for_others={}, together=False, confirmed=self._note_beginning)
        self._membership.restart(committed)

    def _is_in_doubt(self, partition: Partition, committed: int | None, log: PartitionBounds) -> bool:
        """True if the log seems to end before the committed offset, and has not been seen so for long enough."""
        if committed is None or committed <= log.end:
            self._ends_before.pop(partition, None)
            return False
        now = self._clock()
        seen_at, since = self._ends_before.get(partition, (committed, now))
        if seen_at != committed:
            since = now
        self._ends_before[partition] = committed, since
        return now - since < _DOUBTED_FOR_S

    def _start(self, partition: Partition, committed: int | None, log: PartitionBounds) -> int | None:
        """The offset to commit before reading goes on; None: what is committed is good."""
        name = str(partition)
        at = self._membership.stopped_at(partition)
        if committed is None:
            if self._start_position is StartPosition.LATEST:
                self._announce(
                    EventKind.ASSIGNED,
                    f"{name} has no committed offset although the group has begun: it is read from its log start, "
                    f"{log.start}",
                    partitions=(name,),
                )
            return log.start
        cut = self._membership.truncation(partition)
        if cut is not None:
            raise PipelineStopError(
                f"the log of {name} was cut before the committed offset {committed} (unclean leader election; client: "
                f"{cut}). It has other records there. Reset its offset, to {log.start} to process all records there "
                "are now"
            )
        # The log start offset only increases. An offset that the log did not hold then, and that is not before its
        # start now, was beyond its end.
        was_beyond = at is not None and at >= log.start
        if was_beyond and committed <= log.end and self._membership.epochs.doubt(partition, committed):
            if self._told_doubts.get(partition) != committed:
                self._told_doubts[partition] = committed
                self._announce(
                    EventKind.ERROR,
                    f"a broker did not have the committed offset {committed} of {name}, and its leader has it. It is "
                    "read. It is committed only if the leader confirms that the log was not cut before it",
                    partitions=(name,),
                )
        elif committed > log.end or was_beyond:
            raise PipelineStopError(
                f"the log of {name} ends at {log.end}, and has ended before the next offset {max(committed, at or 0)}. "
                "It was recreated or cut; processed records cannot be determined. Stop the pipeline and reset its "
                f"offset, to {log.start} to process all records there are now"
            )
        if committed >= log.start:
            return None
        self._announce(
            EventKind.ERROR,
            f"{name}: {log.start - committed} offsets were deleted unread, from {committed} to {log.start - 1}, by "
            f"the topic's retention or by a user. Reading continues at {log.start}",
            partitions=(name,),
        )
        return log.start
