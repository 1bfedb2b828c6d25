"""A lane: one producer, its open checkpoint, and the end of that checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from app.core.clusters.partition import Partition
from app.core.wire.offset_events import CheckpointOutcome
from app.core.wire.offset_report import Init
from workers.loop.checkpoint import Checkpoint, CheckpointState
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError, FencedError, LoopError, ProducerLostError, error_of
from workers.loop.group.membership import Membership
from workers.loop.pending_commit import PendingCommit
from workers.loop.producing.producers import SendsFor, TaskProducer
from workers.loop.records.failures import BadRecords
from workers.loop.records.suspicion import Suspicion
from workers.loop.records.trials import MAX_CHECKPOINT_RECORDS, UNLIMITED
from workers.loop.recovery import Recovery
from workers.loop.settling import Settling
from workers.loop.slices import SLICE_S, CallPatience, CommitBounds
from workers.loop.telling.progress import ProgressReporter
from workers.loop.telling.tally import Work, WorkTally


def _nothing(_patience: CallPatience) -> None:
    """End an empty lane: nothing is open."""


class Lane:
    """At most one checkpoint at a time, on the current producer.

    Args:
        partition: the lane's only partition; None: all partitions.
        sends_for: the source of the group metadata: the member itself, or the group alone.
        recovery: makes the lane's recovery from errors.
    """

    def __init__(
        self,
        partition: Partition | None,
        *,
        membership: Membership,
        settling: Settling,
        recovery: Callable[[Lane], Recovery],
        suspicion: Suspicion,
        bad_records: BadRecords,
        tally: WorkTally,
        progress: ProgressReporter,
        bounds: CommitBounds,
        size: CheckpointSize,
        sends_for: SendsFor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.partition = partition
        self.settling = settling
        self.suspicion = suspicion
        self.bad_records = bad_records
        self.tally = tally
        self.size = size
        self.producer: TaskProducer | None = None
        self._membership = membership
        self._progress = progress
        self._bounds = bounds
        self._sends_for = sends_for or membership.consumer
        self._clock = clock
        self._current: Checkpoint | None = None
        self._polled_at = clock()
        self.recovery = recovery(self)

    @property
    def current(self) -> Checkpoint | None:
        return self._current

    @property
    def transaction_opened_at(self) -> float | None:
        """The time since which the brokers have its transaction open; None: none is open, or not yet."""
        return self._current.transaction_opened_at if self._current else None

    @property
    def limit(self) -> int:
        """The most records that a checkpoint may hold now; UNLIMITED: no limit."""
        return min((one for one in (self.suspicion.limit, self.size.limit) if one != UNLIMITED), default=UNLIMITED)

    @property
    def is_full(self) -> bool:
        """True if the open checkpoint must be committed before more is read."""
        checkpoint = self._current
        return checkpoint is not None and (
            self.suspicion.is_tried(checkpoint.positions)
            or self.size.is_full(checkpoint.records)
            or checkpoint.is_full(most=MAX_CHECKPOINT_RECORDS)
        )

    @property
    def obstacle(self) -> str | None:
        """The reason why its recovery is not complete."""
        said = self.settling.obstacle
        return (
            said
            if said is None or self.partition is None
            else f"{self.partition.topic}-{self.partition.partition}: {said}"
        )

    @property
    def is_outcome_unknown(self) -> bool:
        """True if a commit was not answered. Then the producer can only be discarded."""
        return self._current is not None and self._current.state is CheckpointState.UNKNOWN

    def settle(self) -> None:
        """Do the next step of the recovery; raises as `Settling.step`."""
        fresh = self.settling.step()
        if fresh is not None:
            self.producer = fresh

    @property
    def live_producer(self) -> TaskProducer:
        if self.producer is None:
            raise FatalError("there is no producer; this is a bug in the loop")
        return self.producer

    def polled(self) -> None:
        """Record that the consumer has just been polled."""
        self._polled_at = self._clock()

    def add(self, positions: Mapping[Partition, int], *, records: int, span: tuple[int, int] | None = None) -> None:
        """Add a batch to the open checkpoint; open one if there is none. `span`: of its first and last record."""
        if self._current is None:
            self._current = Checkpoint(
                self.live_producer,
                self._membership.ownership,
                epoch_of=self._membership.epochs.of,
                clock=self._clock,
            )
        self._current.add(positions, records=records)
        self._membership.recorder.add(positions, records=records, span=span)

    def commit(self) -> None:
        """Commit the open checkpoint, if there is one, and recover from an error of the commit.

        Raises:
            TaskFailedError, PipelineStopError: this attempt cannot go on.
        """
        if self._current is None:
            return
        pending, failure = self.pending_commit(), None
        try:
            pending.checkpoint.commit(
                self._sends_for, patience=self._usual_patience(), metadata=pending.notes, confirmed=pending.heard
            )
            pending.conclude()
            self.committed()
        except LoopError as error:
            failure = error
        # Not while an exception is being handled: see `error_of`.
        if failure is not None:
            self.recovery.recover(failure)

    def committed(self) -> None:
        """Record that the checkpoint has just been committed."""
        self.settling.succeeded()
        if self.suspicion.take_verdict_on_batches():
            self.settling.shrink_batches()
            self.recovery.replace_producer()

    def pending_commit(self) -> PendingCommit:
        """The commit of the open checkpoint, to be made later."""
        checkpoint, began_at, work = self._live_checkpoint, self._clock(), self.tally.open

        def confirmed(at: float) -> None:
            # The transaction of files begins long after this: their uploads are not part of a commit.
            opened_at = checkpoint.transaction_opened_at or began_at
            self._progress.latency.add(at - max(began_at, opened_at))
            self.size.committed(seconds=at - opened_at)
            self._confirm(checkpoint.positions, work)

        def then() -> None:
            self._end(CheckpointOutcome.COMMITTED)
            self.tally.begin()
            self.suspicion.committed(checkpoint.positions)
            self.bad_records.committed()

        return self._pending(self.suspicion.notes(checkpoint.positions), confirmed, then)

    def commit_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> None:
        """Commit notes beside the offsets where the next batch starts, in a transaction without outputs.

        The open checkpoint is committed before.
        """
        self._commit_raising()
        self._make(self.pending_marks(starts, notes))

    def pending_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> PendingCommit:
        """The commit of `commit_marks`, to be made later. No checkpoint may be open."""
        self.add(starts, records=0)
        self.suspicion.marking(notes)
        return self._pending(
            notes, lambda _at: self._confirm(starts, Work()), lambda: self._end(CheckpointOutcome.COMMITTED)
        )

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        confirmed: Callable[[], None],
    ) -> None:
        """Commit start offsets of partitions, in a transaction without outputs (see Starting).

        The open checkpoint is committed before.
        """
        self._commit_raising()
        self._make(self.pending_starts(starts, for_others=for_others, confirmed=confirmed))

    def pending_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        confirmed: Callable[[], None],
    ) -> PendingCommit:
        """The commit of `commit_starts`, to be made later. No checkpoint may be open."""

        def heard(_at: float) -> None:
            self._confirm(starts, Work())
            confirmed()

        self.add(starts, records=0)
        self._live_checkpoint.add_for_others(for_others)
        return self._pending({}, heard, lambda: self._end(CheckpointOutcome.COMMITTED))

    def end_for_revoke(self) -> None:
        """Commit the whole open checkpoint from inside the revoke callback (rule 2).

        An error before the commit call aborts the checkpoint here, within the rest of the bound, or a slice. An
        unanswered commit is left to the loop, outside of the callback (rule 6). Raises the error.
        """
        checkpoint = self._current
        if checkpoint is None or checkpoint.state is not CheckpointState.OPEN:
            return
        bound_s = self._bounds.on_revoke_s(since_poll_s=self._clock() - self._polled_at)
        deadline = self._clock() + bound_s
        error = error_of(lambda: self._make(self.pending_commit(), bound_s), AbortableError)
        if error is not None:
            self._abort(checkpoint, max(SLICE_S, deadline - self._clock()))
            raise error

    def abort(self) -> None:
        """Abort the open checkpoint, if there is one.

        Raises:
            FencedError: the producer cannot be used any more.
            ProducerLostError: the abort was not answered, or refused.
        """
        checkpoint = self._current
        self._end(CheckpointOutcome.ABORTED)
        if checkpoint is None:
            return
        self._forget_work()
        if checkpoint.is_open:
            self._abort(checkpoint, self._bounds.abort_s)

    def aborting(self) -> Callable[[CallPatience], None]:
        """The abort of the open checkpoint, to be made on any thread. All else that ends with it is ended here.

        The call raises as `abort`.
        """
        checkpoint = self._current
        self._end(CheckpointOutcome.ABORTED)
        if checkpoint is None:
            return _nothing
        self._forget_work()
        if not checkpoint.is_open:
            return _nothing

        def abort(patience: CallPatience) -> None:
            checkpoint.abort(patience=patience)

        return abort

    def abandon(self, *, outcome_unknown: bool) -> None:
        """Discard the producer with its open transaction; the init of its successor decides that transaction."""
        had_one = self._current is not None
        self._end(CheckpointOutcome.UNKNOWN if outcome_unknown else CheckpointOutcome.ABORTED)
        if outcome_unknown:
            self.tally.outcome_unknown()
            self.bad_records.aborted()
        elif had_one:
            self._forget_work()
        if self.producer is not None:
            self.producer.discard()
            self.producer = None

    def publish_if_due(self) -> None:
        """Report the progress, if the last report is too old. Touches nothing that could run a callback."""
        now = self._clock()
        if self._progress.is_due(now):
            self._progress.publish(now=now, opened_at=self.transaction_opened_at)

    def identified(self, identity: ProducerIdentity | None) -> None:
        """Report the producer id and epoch of the current producer."""
        if identity is not None:
            init = Init(identity.producer_id, identity.epoch, identity.transactional_id)
            self._membership.recorder.initialised(init)

    @property
    def _live_checkpoint(self) -> Checkpoint:
        if self._current is None:
            raise FatalError("there is no checkpoint; this is a bug in the loop")
        return self._current

    def _end(self, outcome: CheckpointOutcome) -> None:
        checkpoint, self._current = self._current, None
        if checkpoint is not None:
            self._membership.recorder.ended(outcome, checkpoint.positions)

    def _commit_raising(self) -> None:
        """Commit the open checkpoint; an error leaves it to `abort` or `abandon`."""
        if self._current is not None:
            self._make(self.pending_commit())

    def _pending(
        self, notes: Mapping[Partition, str], confirmed: Callable[[float], None], then: Callable[[], None]
    ) -> PendingCommit:
        return PendingCommit(
            self._live_checkpoint,
            sends_for=self._sends_for,
            notes=notes,
            confirmed=confirmed,
            then=then,
            clock=self._clock,
        )

    def _make(self, pending: PendingCommit, bound_s: float | None = None) -> None:
        pending.send(self._usual_patience() if bound_s is None else CallPatience(bound_s, self.publish_if_due))
        pending.conclude()

    def _usual_patience(self) -> CallPatience:
        return CallPatience(self._bounds.usual_s, self.publish_if_due)

    def _confirm(self, positions: Mapping[Partition, int], work: Work) -> None:
        """Record a commit that the broker has confirmed. Another member may own the partition in the meantime."""
        self.tally.committed(work)
        if self._membership.confirmed is not None:
            self._membership.confirmed.add(positions)
        self._membership.remembered.note(positions)
        owned = self._membership.ownership.owned
        self._progress.committed({name: offset for name, offset in positions.items() if name in owned})

    def _abort(self, checkpoint: Checkpoint, bound_s: float) -> None:
        try:
            checkpoint.abort(patience=CallPatience(bound_s, self.publish_if_due))
        except FencedError:
            raise
        except LoopError as error:
            raise ProducerLostError(str(error)) from error

    def _forget_work(self) -> None:
        self.tally.aborted()
        self.bad_records.aborted()
