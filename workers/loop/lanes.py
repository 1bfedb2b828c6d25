"""The lanes of a task. The loop asks the rules of a lane, whether there is one or many.

OneLane      exactly_once_v2, at_least_once   all partitions share a producer and a checkpoint
LaneOfEach   exactly_once                     one for each assigned partition (lane_of_each.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from app.core.clusters.partition import Partition
from workers.loop.errors import FencedError, LoopError
from workers.loop.lane import Lane
from workers.loop.records.polled import PolledMessages, Records
from workers.loop.telling.progress import ProgressReporter


class Batch(NamedTuple):
    """Records of one poll that go through one lane, and the new positions after them."""

    lane: Lane
    records: Records
    moved: Mapping[Partition, int]


class Marks(NamedTuple):
    """The notes that must be committed in a lane before its next batch, and the offsets where that batch begins."""

    lane: Lane
    starts: Mapping[Partition, int]
    notes: Mapping[Partition, str]


class Lanes(Protocol):
    """The difference between one producer for all partitions and one for each. No method is called for each record."""

    @property
    def each(self) -> Sequence[Lane]:
        """The current lanes."""
        ...

    @property
    def is_ready(self) -> bool:
        """True if the group may be joined."""
        ...

    @property
    def is_blocked(self) -> bool:
        """True if no records can be processed: every lane must recover first."""
        ...

    @property
    def are_many(self) -> bool:
        """True if a partition may be idle in its lane while others are not."""
        ...

    def prepare(self) -> None:
        """Before the group is joined: make the producers that do not depend on the assignment."""
        ...

    def polled(self) -> None:
        """Record that the consumer has just been polled."""
        ...

    def guarded(self, action: Callable[[], None]) -> None:
        """Run an action that concerns all lanes; an error of Kafka starts a recovery in all of them."""
        ...

    def divide(self, records: Records, moved: Mapping[Partition, int]) -> list[Batch]:
        """The records of one poll, by lane, in their order."""
        ...

    def divide_positions(self, moved: Mapping[Partition, int]) -> list[tuple[Lane, Mapping[Partition, int]]]:
        """Positions, by lane, of lanes that need no recovery."""
        ...

    def leave_out(self, records: Records) -> Records:
        """Drop the records of lanes that must recover; they are read again."""
        ...

    def lane_of(self, partition: Partition) -> Lane | None: ...

    def settle(self) -> None:
        """Do a step of the recovery in every lane that needs it, as far as a turn has time."""
        ...

    def begin_again(self) -> None:
        """At the end of a turn: do the steps of `settle` that require that nothing is open in any lane."""
        ...

    def commit(self, lanes: Sequence[Lane]) -> None:
        """Commit the open checkpoints of these lanes; each recovers from the error of its own commit."""
        ...

    def commit_marks(self, marks: Sequence[Marks]) -> None:
        """Commit the open checkpoints of their lanes, then these marks. Each lane recovers from its own errors."""
        ...

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        together: bool,
        confirmed: Callable[[], None],
    ) -> bool:
        """See CommitStarts."""
        ...

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """In the callback, before these partitions are assigned."""
        ...

    def end_for_revoke(self, partitions: Sequence[Partition]) -> None:
        """In the callback: commit all that holds records of these, before they are revoked (rule 2)."""
        ...

    def lost(self, partitions: Sequence[Partition]) -> None:
        """In the callback: prevent any later commit for these."""
        ...

    def identify(self) -> None:
        """Ask the clients for their producer ids and epochs, and report them."""
        ...

    def close(self) -> bool:
        """End what is open and release the producers. True if a transaction may be left open."""
        ...


class OneLane:
    """One producer and one checkpoint for all partitions."""

    are_many = False

    def __init__(self, lane: Lane, *, progress: ProgressReporter) -> None:
        self._lane = lane
        self._progress = progress
        self.each: Sequence[Lane] = (lane,)

    @property
    def is_ready(self) -> bool:
        return self._lane.producer is not None

    @property
    def is_blocked(self) -> bool:
        return self._lane.settling.is_needed

    def prepare(self) -> None:
        self._lane.settling.require_producer()

    def polled(self) -> None:
        self._lane.polled()

    def guarded(self, action: Callable[[], None]) -> None:
        self._lane.recovery.guarded(action)

    def divide(self, records: Records, moved: Mapping[Partition, int]) -> list[Batch]:
        return [Batch(self._lane, records, moved)]

    def divide_positions(self, moved: Mapping[Partition, int]) -> list[tuple[Lane, Mapping[Partition, int]]]:
        return [(self._lane, moved)] if moved and not self._lane.settling.is_needed else []

    def leave_out(self, records: Records) -> Records:
        if records:
            # Their partitions were to be paused. They are not processed now, so they must be read again.
            self._lane.settling.require_rewind()
        return PolledMessages()

    def lane_of(self, partition: Partition) -> Lane | None:  # noqa: ARG002 - the same for each
        return self._lane

    def settle(self) -> None:
        self._lane.recovery.guarded(self._lane.settle)

    def begin_again(self) -> None:
        """Nothing to do: where all partitions share a producer, none is restarted."""

    def commit(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            lane.commit()

    def commit_marks(self, marks: Sequence[Marks]) -> None:
        for lane, starts, notes in marks:
            lane.recovery.guarded(partial(lane.commit_marks, starts, notes))

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        together: bool,  # noqa: ARG002 - with one producer they always are
        confirmed: Callable[[], None],
    ) -> bool:
        self._lane.commit_starts(starts, for_others=for_others, confirmed=confirmed)
        return True

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Nothing to do: the producer exists already."""

    def end_for_revoke(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - all that is open
        self._lane.end_for_revoke()

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to do: the loop finds the changed ownership of its open checkpoint."""

    def identify(self) -> None:
        producer = self._lane.producer
        identity = None if producer is None else producer.identity(timeout_s=0)
        self._progress.identify(identity)
        self._lane.identified(identity)

    def close(self) -> bool:
        lane, may_be_open = self._lane, self._lane.settling.is_undecided
        lane.settling.give_up()
        is_unknown = lane.is_outcome_unknown
        if not is_unknown:
            try:
                lane.abort()
            except LoopError as error:
                self._progress.last_error = str(error)
                # A fenced producer has nothing open any more.
                may_be_open |= not isinstance(error, FencedError)
        lane.abandon(outcome_unknown=is_unknown)
        return may_be_open or is_unknown
