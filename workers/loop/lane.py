"""A lane: one producer, the checkpoint that is open on it, and everything that ends with that checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from app.core.wire.offset_events import Outcome
from app.core.wire.offset_report import Init
from workers.loop.checkpoint import Checkpoint, CheckpointState
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError, FencedError, LoopError, ProducerLostError, error_of
from workers.loop.group.membership import Membership
from workers.loop.group.ownership import Partition
from workers.loop.pending_commit import PendingCommit
from workers.loop.producing.producers import SendsFor, TaskProducer
from workers.loop.records.failures import BadRecords
from workers.loop.records.suspicion import Suspicion
from workers.loop.records.trials import MAX_CHECKPOINT_RECORDS, UNLIMITED
from workers.loop.recovery import Recovery
from workers.loop.settling import Settling
from workers.loop.slices import SLICE_S, CommitBounds, Patience
from workers.loop.telling.progress import Progress
from workers.loop.telling.tally import Tally, Work


def _nothing(_patience: Patience) -> None:
    """What is left to do when nothing is open."""


class Lane:
    """At most one checkpoint at a time, on the producer of the moment.

    Args:
        partition: the only one whose records go through it; None: all do.
        sends_for: None: the consumer, as the member that it is.
        recovery: makes what recovers this lane from an error.
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
        tally: Tally,
        progress: Progress,
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
        """Since when the brokers have a transaction of it open; None: none is, or not yet."""
        return self._current.transaction_opened_at if self._current else None

    @property
    def limit(self) -> int:
        """The most records that a checkpoint may hold now; UNLIMITED: as many as ever."""
        return min((one for one in (self.suspicion.limit, self.size.limit) if one != UNLIMITED), default=UNLIMITED)

    @property
    def is_full(self) -> bool:
        """Whether what is open must be committed before more is read."""
        checkpoint = self._current
        return checkpoint is not None and (
            self.suspicion.is_tried(checkpoint.positions)
            or self.size.is_full(checkpoint.records)
            or checkpoint.is_full(most=MAX_CHECKPOINT_RECORDS)
        )

    @property
    def obstacle(self) -> str | None:
        """Why it is not settled yet."""
        said = self.settling.obstacle
        return said if said is None or self.partition is None else f"{self.partition[0]}-{self.partition[1]}: {said}"

    @property
    def is_unknown(self) -> bool:
        """Whether a commit was asked for and not answered; then nothing may be done but to let go of the producer."""
        return self._current is not None and self._current.state is CheckpointState.UNKNOWN

    def settle(self) -> None:
        """The next step of what is to be settled; raises as `Settling.step`."""
        fresh = self.settling.step()
        if fresh is not None:
            self.producer = fresh

    @property
    def live_producer(self) -> TaskProducer:
        if self.producer is None:
            raise FatalError("there is no producer; this is a bug in the loop")
        return self.producer

    def polled(self) -> None:
        """The consumer has just been polled."""
        self._polled_at = self._clock()

    def add(self, positions: Mapping[Partition, int], *, records: int, span: tuple[int, int] | None = None) -> None:
        """Make a batch part of the open checkpoint; open one if there is none. `span`: of its first and last record."""
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
        """Commit what is open, if anything is, and recover from what the commit was answered.

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
        """The checkpoint of records has just been committed."""
        self.settling.succeeded()
        if self.suspicion.take_verdict_on_batches():
            self.settling.shrink_batches()
            self.recovery.replace_producer()

    def pending_commit(self) -> PendingCommit:
        """The commit of the open checkpoint, to be made."""
        checkpoint, began_at, work = self._live_checkpoint, self._clock(), self.tally.open

        def confirmed(at: float) -> None:
            # Of files the transaction begins long after this: their uploads are no part of a commit.
            opened_at = checkpoint.transaction_opened_at or began_at
            self._progress.latency.add(at - max(began_at, opened_at))
            self.size.committed(seconds=at - opened_at)
            self._confirm(checkpoint.positions, work)

        def then() -> None:
            self._end(Outcome.COMMITTED)
            self.tally.begin()
            self.suspicion.committed(checkpoint.positions)
            self.bad_records.committed()

        return self._pending(self.suspicion.notes(checkpoint.positions), confirmed, then)

    def commit_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> None:
        """Commit notes beside the offsets where the next batch starts, in a transaction without outputs.

        What is open is committed before.
        """
        self._commit_raising()
        self._make(self.pending_marks(starts, notes))

    def pending_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> PendingCommit:
        """That commit, to be made; nothing may be open."""
        self.add(starts, records=0)
        self.suspicion.marking(notes)
        return self._pending(notes, lambda _at: self._confirm(starts, Work()), lambda: self._end(Outcome.COMMITTED))

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        confirmed: Callable[[], None],
    ) -> None:
        """Commit where partitions begin, in a transaction without outputs (see Starting).

        What is open is committed before.
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
        """That commit, to be made; nothing may be open."""

        def heard(_at: float) -> None:
            self._confirm(starts, Work())
            confirmed()

        self.add(starts, records=0)
        self._live_checkpoint.add_for_others(for_others)
        return self._pending({}, heard, lambda: self._end(Outcome.COMMITTED))

    def end_for_revoke(self) -> None:
        """Commit the whole open checkpoint from inside the revoke callback (rule 2).

        What fails before the commit call is aborted here, within what is left of the bound, or a slice. A commit whose
        answer is missing is left for the loop, outside of the callback (rule 6). Raises what went wrong.
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
        """Abort what is open, if anything is.

        Raises:
            FencedError: the producer is over anyway.
            ProducerLostError: the abort was not answered, or refused.
        """
        checkpoint = self._current
        self._end(Outcome.ABORTED)
        if checkpoint is None:
            return
        self._forget_work()
        if checkpoint.is_open:
            self._abort(checkpoint, self._bounds.abort_s)

    def aborting(self) -> Callable[[Patience], None]:
        """The abort of what is open, to be made on any thread; what else ends with the checkpoint is ended here.

        The call raises as `abort`.
        """
        checkpoint = self._current
        self._end(Outcome.ABORTED)
        if checkpoint is None:
            return _nothing
        self._forget_work()
        if not checkpoint.is_open:
            return _nothing

        def abort(patience: Patience) -> None:
            checkpoint.abort(patience=patience)

        return abort

    def abandon(self, *, outcome_unknown: bool) -> None:
        """Let go of the producer with whatever is open in it; its successor's init decides that."""
        had_one = self._current is not None
        self._end(Outcome.UNKNOWN if outcome_unknown else Outcome.ABORTED)
        if outcome_unknown:
            self.tally.outcome_unknown()
            self.bad_records.aborted()
        elif had_one:
            self._forget_work()
        if self.producer is not None:
            self.producer.discard()
            self.producer = None

    def publish_if_due(self) -> None:
        """Say how things are, if it has not been said for a while. Touches nothing that could run a callback."""
        now = self._clock()
        if self._progress.is_due(now):
            self._progress.publish(now=now, opened_at=self.transaction_opened_at)

    def identified(self, identity: ProducerIdentity | None) -> None:
        """The producer of the moment has said who it is; that is told, whatever becomes of it."""
        if identity is not None:
            init = Init(identity.producer_id, identity.epoch, identity.transactional_id)
            self._membership.recorder.initialised(init)

    @property
    def _live_checkpoint(self) -> Checkpoint:
        if self._current is None:
            raise FatalError("there is no checkpoint; this is a bug in the loop")
        return self._current

    def _end(self, outcome: Outcome) -> None:
        checkpoint, self._current = self._current, None
        if checkpoint is not None:
            self._membership.recorder.ended(outcome, checkpoint.positions)

    def _commit_raising(self) -> None:
        """Commit what is open; whatever it raises leaves the checkpoint to `abort` or `abandon`."""
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
        pending.send(self._usual_patience() if bound_s is None else Patience(bound_s, self.publish_if_due))
        pending.conclude()

    def _usual_patience(self) -> Patience:
        return Patience(self._bounds.usual_s, self.publish_if_due)

    def _confirm(self, positions: Mapping[Partition, int], work: Work) -> None:
        """The broker has said that it is committed. It may have become somebody else's in the meantime."""
        self.tally.committed(work)
        if self._membership.confirmed is not None:
            self._membership.confirmed.add(positions)
        self._membership.remembered.note(positions)
        owned = self._membership.ownership.owned
        self._progress.committed({name: offset for name, offset in positions.items() if name in owned})

    def _abort(self, checkpoint: Checkpoint, bound_s: float) -> None:
        try:
            checkpoint.abort(patience=Patience(bound_s, self.publish_if_due))
        except FencedError:
            raise
        except LoopError as error:
            raise ProducerLostError(str(error)) from error

    def _forget_work(self) -> None:
        self.tally.aborted()
        self.bad_records.aborted()
