"""The checkpoint that is open now, and what else ends with it: counters, notes, bad records, latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from app.domain.offset_log.events import Outcome
from workers.transactional.checkpoint import Checkpoint, CheckpointState
from workers.transactional.errors import (
    AbortableError,
    FatalError,
    FencedError,
    LoopError,
    ProducerLostError,
    error_of,
)
from workers.transactional.group.membership import Membership
from workers.transactional.group.ownership import Partition
from workers.transactional.producing.producers import TaskProducer
from workers.transactional.records.failures import BadRecords
from workers.transactional.records.suspicion import Suspicion
from workers.transactional.slices import SLICE_S, Patience
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally, Work


class Bounds:
    """How long an ending checkpoint may take.

    At most a transaction timeout: the coordinator aborts after that in any case. Inside a revoke callback at most a
    third of what is left until `max.poll.interval.ms`, after which the group would go on without this member.
    """

    def __init__(self, *, transaction_timeout_s: float, max_poll_interval_s: float) -> None:
        self.usual_s = transaction_timeout_s
        self._max_poll_interval_s = max_poll_interval_s

    def on_revoke_s(self, *, since_poll_s: float) -> float:
        return max(SLICE_S, min(self.usual_s, (self._max_poll_interval_s - since_poll_s) / 3))


class Checkpoints:
    """At most one checkpoint at a time, on the producer of the moment."""

    def __init__(
        self,
        *,
        membership: Membership,
        suspicion: Suspicion,
        bad_records: BadRecords,
        tally: Tally,
        progress: Progress,
        bounds: Bounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.producer: TaskProducer | None = None
        self._membership = membership
        self._suspicion = suspicion
        self._bad_records = bad_records
        self._tally = tally
        self._progress = progress
        self._bounds = bounds
        self._clock = clock
        self._current: Checkpoint | None = None
        self._polled_at = clock()

    @property
    def current(self) -> Checkpoint | None:
        return self._current

    @property
    def opened_at(self) -> float | None:
        """Since when a checkpoint is open; None: none is."""
        return self._current.opened_at if self._current else None

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
            self._current = Checkpoint(self.live_producer, self._membership.ownership, clock=self._clock)
        self._current.add(positions, records=records)
        self._membership.recorder.add(positions, records=records, span=span)

    def commit(self) -> None:
        """Commit what is open, if anything is. Whatever it raises leaves the checkpoint to `abort` or `abandon`."""
        if self._current is not None:
            self._commit(self._current, self._bounds.usual_s)

    def commit_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> None:
        """Commit notes beside the offsets where the next batch starts, in a transaction without outputs."""
        self.commit()
        self.add(starts, records=0)
        self._suspicion.marking(notes)
        if self._current is not None:
            self._current.commit(
                self._membership.consumer,
                patience=Patience(self._bounds.usual_s, self.publish_if_due),
                metadata=notes,
                confirmed=lambda: self._confirm(starts, Work()),
            )
            self._end(Outcome.COMMITTED)

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        confirmed: Callable[[], None],
    ) -> None:
        """Commit where partitions begin, in a transaction without outputs (see Starting)."""

        def heard() -> None:
            self._confirm(starts, Work())
            confirmed()

        self.commit()
        self.add(starts, records=0)
        if self._current is not None:
            self._current.add_for_others(for_others)
            self._current.commit(
                self._membership.consumer,
                patience=Patience(self._bounds.usual_s, self.publish_if_due),
                confirmed=heard,
            )
            self._end(Outcome.COMMITTED)

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
        error = error_of(lambda: self._commit(checkpoint, bound_s), AbortableError)
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
            self._abort(checkpoint, self._bounds.usual_s)

    def abandon(self, *, outcome_unknown: bool) -> None:
        """Let go of the producer with whatever is open in it; its successor's init decides that."""
        had_one = self._current is not None
        self._end(Outcome.UNKNOWN if outcome_unknown else Outcome.ABORTED)
        if outcome_unknown:
            self._tally.outcome_unknown()
            self._bad_records.aborted()
        elif had_one:
            self._forget_work()
        if self.producer is not None:
            self.producer.discard()
            self.producer = None

    def publish_if_due(self) -> None:
        """Say how things are, if it has not been said for a while. Touches nothing that could run a callback."""
        now = self._clock()
        if self._progress.is_due(now):
            self._progress.publish(now=now, opened_at=self.opened_at)

    def _end(self, outcome: Outcome) -> None:
        self._current = None
        self._membership.recorder.ended(outcome)

    def _commit(self, checkpoint: Checkpoint, bound_s: float) -> None:
        began_at, work = self._clock(), self._tally.open

        def confirmed() -> None:
            self._progress.latency.add(self._clock() - began_at)
            self._confirm(checkpoint.positions, work)

        checkpoint.commit(
            self._membership.consumer,
            patience=Patience(bound_s, self.publish_if_due),
            metadata=self._suspicion.notes(checkpoint.positions),
            confirmed=confirmed,
        )
        self._end(Outcome.COMMITTED)
        self._tally.begin()
        self._suspicion.committed(checkpoint.positions)
        self._bad_records.committed()

    def _confirm(self, positions: Mapping[Partition, int], work: Work) -> None:
        """The broker has said that it is committed. It may have become somebody else's in the meantime."""
        self._tally.committed(work)
        if self._membership.confirmed is not None:
            self._membership.confirmed.add(positions)
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
        self._tally.aborted()
        self._bad_records.aborted()
