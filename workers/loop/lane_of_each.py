"""A lane for each assigned partition: `exactly_once`, one transactional producer per input partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from app.core.clusters.partition import Partition
from workers.loop.errors import (
    FatalError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    PipelineStopError,
    TaskFailedError,
    error_of,
)
from workers.loop.group.member_metadata import MemberMetadata
from workers.loop.group.membership import Membership
from workers.loop.lane import Lane
from workers.loop.lanes import Batch, Marks
from workers.loop.pending_commit import PendingCommit
from workers.loop.producing.producers import TaskProducer
from workers.loop.records.polled import Records
from workers.loop.slices import SLICE_S, CallPatience, CommitBounds, in_slices
from workers.loop.telling.progress import PartitionProducer, ProgressReporter
from workers.loop.together import Together

_INIT_S = 2.0
"""The time that an assign callback waits for its inits. A partition that is not ready then starts paused, and is
restarted later."""
_TURN_S = 1.0
_IDENTITY_S = 0.7
"""A little longer than statistics take to come."""
_GROUP_ALONE = -1


class LaneOfEach:
    """Makes a lane when its partition is assigned, and ends it when the partition is revoked or lost.

      assigned   init first, in the callback and before the partition is assigned, so that its committed offset is read
                 when no other producer can commit under the id any more (rule 4)
      revoked    commit, then release the producer; other partitions are not touched
      lost       abort, then release: the next owner's init ends what an unanswered abort leaves open

    An attempt that did not poll for a session may have been replaced. It asks whether it is still current before it
    initialises ids again. Without the server it continues, as the data plane does (rule 8).

    Calls that wait for brokers are made together. The loop's own thread waits for them and polls nothing meanwhile, so
    that no callback runs and no ownership changes between a commit's steps.

    Args:
        make: a new lane, without a producer.
        metadata: the source of the member's metadata for the lanes' commits.
        id_of: the transactional id of a partition.
        refusal: the reason why these ids cannot be used; None: they can.
        session_s: after so long without a poll, partitions may be lost without a callback that reports it (eager).
    """

    are_many = True
    is_ready = True

    def __init__(
        self,
        make: Callable[[Partition], Lane],
        *,
        id_of: Callable[[Partition], str],
        refusal: str | None,
        membership: Membership,
        metadata: MemberMetadata,
        progress: ProgressReporter,
        bounds: CommitBounds,
        session_s: float,
        sends_for_group_alone: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.each: Sequence[Lane] = ()
        self._make = make
        self._id_of = id_of
        self._refusal = refusal
        self._membership = membership
        self._progress = progress
        self._bounds = bounds
        self._session_s = session_s
        self._was_away = False
        self._sends_for_group_alone = sends_for_group_alone
        self._clock = clock
        self._lanes: dict[Partition, Lane] = {}
        self._together = Together(metadata, meanwhile=self._publish_if_due, clock=clock)
        self._polled_at = clock()
        self._first_to_settle = 0

    @property
    def is_blocked(self) -> bool:
        return bool(self.each) and all(lane.settling.is_needed for lane in self.each)

    def prepare(self) -> None:
        """Check the ids; nothing is assigned yet. Raises PipelineStopError when the ids cannot be used."""
        if self._refusal is not None:
            raise PipelineStopError(self._refusal)

    def polled(self) -> None:
        self._note_absence()
        self._polled_at = self._clock()

    def guarded(self, action: Callable[[], None]) -> None:
        error = error_of(action, LoopError)
        if error is None:
            return
        if isinstance(error, FatalError):
            raise TaskFailedError(str(error)) from error
        self._progress.last_error = str(error)
        for lane in self.each:
            lane.recovery.recover(error)

    def divide(self, records: Records, moved: Mapping[Partition, int]) -> list[Batch]:
        return [
            Batch(self._lanes[name], own, {name: moved[name]} if name in moved else {})
            for name, own in records.by_partition().items()
            if name in self._lanes
        ]

    def divide_positions(self, moved: Mapping[Partition, int]) -> list[tuple[Lane, Mapping[Partition, int]]]:
        return [
            (lane, {name: moved[name]})
            for name, lane in self._lanes.items()
            if name in moved and not lane.settling.is_needed
        ]

    def leave_out(self, records: Records) -> Records:
        held = {lane.partition: lane for lane in self.each if lane.partition is not None and lane.settling.is_needed}
        polled = records.first_offsets()
        for partition, lane in held.items():
            if partition in polled:
                lane.settling.require_rewind()
        return records.without(held)

    def lane_of(self, partition: Partition) -> Lane | None:
        return self._lanes.get(partition)

    def settle(self) -> None:
        """Make all inits together, after one check and one rewind for each lane. The next turn continues from there."""
        at = self._first_to_settle % max(1, len(self.each))
        needing = [
            lane
            for lane in (*self.each[at:], *self.each[:at])
            if lane.settling.is_needed and not lane.settling.is_to_restart
        ]
        deadline = self._clock() + _TURN_S
        allowed: list[tuple[Lane, TaskProducer]] = []
        for lane in needing:
            if self._clock() >= deadline:
                break
            self._first_to_settle = self.each.index(lane) + 1
            if lane.settling.needs_producer:
                lane.recovery.guarded(partial(_ask, lane, allowed))
            else:
                lane.recovery.guarded(lane.settle)
        self._init(allowed, SLICE_S)

    def begin_again(self) -> None:
        due = [lane for lane in self.each if lane.settling.is_to_restart and not lane.settling.wait_s]
        if due:
            self.commit(self.each)
            for lane in due:
                lane.recovery.guarded(lane.settle)

    def commit(self, lanes: Sequence[Lane]) -> None:
        opened = [lane for lane in lanes if lane.current is not None]
        self._commit_together([(lane, lane.pending_commit()) for lane in opened], self._bounds.usual_s, Lane.committed)

    def commit_marks(self, marks: Sequence[Marks]) -> None:
        commits: list[tuple[Lane, PendingCommit]] = []

        def begin(lane: Lane, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> None:
            commits.append((lane, lane.pending_marks(starts, notes)))

        self.commit([lane for lane, _, _ in marks])
        for lane, starts, notes in marks:
            if lane.settling.is_needed:
                continue
            lane.recovery.guarded(partial(begin, lane, starts, notes))
        self._commit_together(commits, self._bounds.usual_s)

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        together: bool,
        confirmed: Callable[[], None],
    ) -> bool:
        commits: list[tuple[Lane, PendingCommit]] = []

        def begin(lane: Lane, own: Mapping[Partition, int]) -> None:
            commits.append((lane, lane.pending_starts(own, for_others=for_others, confirmed=confirmed)))

        by_lane = {min(starts): starts} if together else {name: {name: offset} for name, offset in starts.items()}
        for name, own in by_lane.items():
            lane = self._lanes[name]
            if not lane.settling.is_needed:
                lane.recovery.guarded(partial(begin, lane, own))
        self._commit_together(commits, self._bounds.usual_s)
        return len(commits) == len(by_lane) and not any(lane.settling.is_needed for lane, _ in commits)

    def identify(self) -> None:
        generation = _GROUP_ALONE if self._sends_for_group_alone else self._membership.generation()
        found: dict[Partition, PartitionProducer] = {}
        for name, lane in self._lanes.items():
            producer = lane.producer
            identity = None if producer is None else producer.identity(timeout_s=0)
            lane.identified(identity)
            found[name] = PartitionProducer(self._id_of(name), identity, generation)
        self._progress.identify_each(found)

    def close(self) -> bool:
        may_be_open = any(lane.settling.is_undecided for lane in self.each)
        may_be_open |= self._let_go(list(self._lanes))
        self._together.close()
        return may_be_open

    # Inside callbacks

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Initialise the producers before the partitions are assigned. A partition without one starts paused."""
        self._let_go(partitions)
        fresh = {name: self._make(name) for name in partitions}
        self._lanes |= fresh
        self.each = tuple(self._lanes.values())
        self._note_absence()
        for lane in fresh.values():
            lane.settling.require_producer()
            if self._was_away:
                lane.settling.require_ownership_check()
        self._was_away = self._was_away and not fresh
        allowed: list[tuple[Lane, TaskProducer]] = []
        for lane in fresh.values():
            lane.recovery.guarded(partial(_ask, lane, allowed))
        self._init(allowed, _INIT_S)
        for lane in fresh.values():
            if lane.settling.needs_producer:
                # Its committed offset is read too early now; a restart reads it again.
                lane.settling.require_restart()

    def end_for_revoke(self, partitions: Sequence[Partition]) -> None:
        """Commit the open checkpoints of these lanes, within the callback's bound, and release the lanes."""
        lanes = [self._lanes[name] for name in partitions if name in self._lanes]
        opened = [lane for lane in lanes if lane.current is not None and not lane.is_outcome_unknown]
        bound_s = self._bounds.on_revoke_s(since_poll_s=self._clock() - self._polled_at)
        error = error_of(
            lambda: self._commit_together([(lane, lane.pending_commit()) for lane in opened], bound_s), BaseException
        )
        self._let_go(partitions)
        if error is not None:
            raise error

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._was_away = True
        self._let_go(partitions)

    def _note_absence(self) -> None:
        self._was_away |= self._clock() - self._polled_at > self._session_s

    def _let_go(self, partitions: Sequence[Partition]) -> bool:
        """End these lanes, open checkpoints included. True if a transaction may be left open."""
        gone = [self._lanes.pop(name) for name in partitions if name in self._lanes]
        if not gone:
            return False
        self.each = tuple(self._lanes.values())
        unknown = [lane.is_outcome_unknown for lane in gone]
        calls: list[Callable[[CallPatience], None]] = []
        for lane, is_unknown in zip(gone, unknown, strict=True):
            self._progress.unwatch(lane.partition)
            lane.settling.give_up()
            abort = None if is_unknown else lane.aborting()
            calls.append(partial(_end, lane.producer, abort))
        errors = self._together.make(calls, self._bounds.abort_s)
        discards: list[Callable[[CallPatience], None]] = []
        for lane, is_unknown in zip(gone, unknown, strict=True):
            producer, lane.producer = lane.producer, None
            if producer is not None:
                lane.identified(producer.identity(timeout_s=0))
                discards.append(partial(_discard, producer))
            lane.abandon(outcome_unknown=is_unknown)
            if lane.partition is not None:
                self._membership.unhold(lane.partition)
        self._together.make(discards, 0.0)
        return any(unknown) or any(error is not None and not isinstance(error, FencedError) for error in errors)

    # Together

    def _init(self, asked: Sequence[tuple[Lane, TaskProducer]], bound_s: float) -> None:
        def hear(lane: Lane, error: BaseException | None) -> None:
            fresh = lane.settling.after_init(error)
            if fresh is not None:
                lane.producer = fresh

        errors = self._together.make([partial(in_slices, fresh.init) for _, fresh in asked], bound_s)
        for (lane, _), error in zip(asked, errors, strict=True):
            lane.recovery.guarded(partial(hear, lane, error))

    def _commit_together(
        self, commits: Sequence[tuple[Lane, PendingCommit]], bound_s: float, then: Callable[[Lane], None] | None = None
    ) -> None:
        """Make the commits together; each lane recovers from the error of its own commit."""

        def conclude(lane: Lane, pending: PendingCommit, error: BaseException | None) -> None:
            if error is not None:
                raise error
            pending.conclude()
            if then is not None:
                then(lane)

        errors = self._together.make(
            [pending.send for _, pending in commits],
            bound_s,
            # Healthy ones may have waited for a thread behind some that do not answer.
            least_s=SLICE_S,
            overdue=OutcomeUnknownError,
        )
        ends: BaseException | None = None
        for (lane, pending), error in zip(commits, errors, strict=True):
            raised = error_of(partial(lane.recovery.guarded, partial(conclude, lane, pending, error)), BaseException)
            ends = ends or raised
        # Last: the commits of the other lanes are done, and count, although this attempt ends.
        if ends is not None:
            raise ends

    def _publish_if_due(self) -> None:
        now = self._clock()
        if self._progress.is_due(now):
            opened = [lane.transaction_opened_at for lane in self.each]
            self._progress.publish(now=now, opened_at=min((at for at in opened if at is not None), default=None))


def _ask(lane: Lane, allowed: list[tuple[Lane, TaskProducer]]) -> None:
    """Add the lane's next producer, if it may be initialised now."""
    fresh = lane.settling.next_init()
    if fresh is not None:
        allowed.append((lane, fresh))


def _end(producer: TaskProducer | None, abort: Callable[[CallPatience], None] | None, patience: CallPatience) -> None:
    """Abort, and wait a little for the producer's identity: an unreported one could pass for another client's."""
    error = None if abort is None else error_of(partial(abort, patience), LoopError)
    if producer is not None:
        producer.identity(timeout_s=_IDENTITY_S)
    if error is not None:
        raise error


def _discard(producer: TaskProducer, _patience: CallPatience) -> None:
    producer.discard()
