"""The checkpoint that is open now, and what else ends with it: counters, notes, bad records, latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.domain.offset_log.events import Outcome
from app.domain.offset_log.hearing import Init
from workers.transactional.checkpoint import Checkpoint, CheckpointState
from workers.transactional.checkpoint_size import CheckpointSize
from workers.transactional.control import ProducerIdentity
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
from workers.transactional.producing.producers import SendsFor, TaskProducer
from workers.transactional.records.failures import BadRecords
from workers.transactional.records.suspicion import Suspicion
from workers.transactional.slices import SLICE_S, Patience
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally, Work


def _nothing(_patience: Patience) -> None:
    """What is left to do when nothing is open."""


class Bounds:
    """How long an ending checkpoint may take.

    At most a transaction timeout: the coordinator aborts after that in any case. Inside a revoke callback at most a
    third of what is left until `max.poll.interval.ms`, after which the group would go on without this member.

    Args:
        before_s: how long what comes before the transaction may take: the uploads of a file pipeline.
        abort_s: how long an abort may take; None: a transaction timeout.
    """

    def __init__(
        self,
        *,
        transaction_timeout_s: float,
        max_poll_interval_s: float,
        before_s: float = 0.0,
        abort_s: float | None = None,
    ) -> None:
        self.usual_s = before_s + transaction_timeout_s
        self.abort_s = transaction_timeout_s if abort_s is None else abort_s
        self._max_poll_interval_s = max_poll_interval_s

    def on_revoke_s(self, *, since_poll_s: float) -> float:
        return max(SLICE_S, min(self.usual_s, (self._max_poll_interval_s - since_poll_s) / 3))


class Ending(NamedTuple):
    """A commit in parts, so that those of many producers can be waited for together.

    send(patience, confirmed)   waits for the brokers; on any thread, while the one of the loop polls nothing. It calls
                                `confirmed` as Checkpoint.commit does, and raises what that raises
    confirmed(at)               on the loop's thread: the broker has said so at that time of the clock
    conclude()                  on the loop's thread, after `send`: what else ends with the checkpoint
    """

    send: Callable[[Patience, Callable[[], None]], None]
    confirmed: Callable[[float], None]
    conclude: Callable[[], None]


class Checkpoints:
    """At most one checkpoint at a time, on the producer of the moment.

    Args:
        sends_for: None: the consumer, as the member that it is.
    """

    def __init__(
        self,
        *,
        membership: Membership,
        suspicion: Suspicion,
        bad_records: BadRecords,
        tally: Tally,
        progress: Progress,
        bounds: Bounds,
        size: CheckpointSize,
        sends_for: SendsFor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.producer: TaskProducer | None = None
        self._membership = membership
        self._suspicion = suspicion
        self._bad_records = bad_records
        self._tally = tally
        self._progress = progress
        self._bounds = bounds
        self._size = size
        self._sends_for = sends_for or membership.consumer
        self._clock = clock
        self._current: Checkpoint | None = None
        self._polled_at = clock()

    @property
    def current(self) -> Checkpoint | None:
        return self._current

    @property
    def transaction_opened_at(self) -> float | None:
        """Since when the brokers have a transaction of it open; None: none is, or not yet."""
        return self._current.transaction_opened_at if self._current else None

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
        """Commit what is open, if anything is. Whatever it raises leaves the checkpoint to `abort` or `abandon`."""
        if self._current is not None:
            self._finish(self.ending(), self._bounds.usual_s)

    def ending(self) -> Ending:
        """The commit of the open checkpoint, to be made."""
        checkpoint, began_at, work = self._live_checkpoint, self._clock(), self._tally.open

        def confirmed(at: float) -> None:
            # Of files the transaction begins long after this ending: their uploads are no part of a commit.
            opened_at = checkpoint.transaction_opened_at or began_at
            self._progress.latency.add(at - max(began_at, opened_at))
            self._size.committed(seconds=at - opened_at)
            self._confirm(checkpoint.positions, work)

        def conclude() -> None:
            self._end(Outcome.COMMITTED)
            self._tally.begin()
            self._suspicion.committed(checkpoint.positions)
            self._bad_records.committed()

        return Ending(self._sending(self._suspicion.notes(checkpoint.positions)), confirmed, conclude)

    def commit_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> None:
        """Commit notes beside the offsets where the next batch starts, in a transaction without outputs."""
        self.commit()
        self._finish(self.ending_of_marks(starts, notes), self._bounds.usual_s)

    def ending_of_marks(self, starts: Mapping[Partition, int], notes: Mapping[Partition, str]) -> Ending:
        """That commit, to be made; nothing may be open."""

        def heard(_at: float) -> None:
            self._confirm(starts, Work())

        self.add(starts, records=0)
        self._suspicion.marking(notes)
        return Ending(self._sending(notes), heard, lambda: self._end(Outcome.COMMITTED))

    def commit_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        confirmed: Callable[[], None],
    ) -> None:
        """Commit where partitions begin, in a transaction without outputs (see Starting)."""
        self.commit()
        ending = self.ending_of_starts(starts, for_others=for_others, confirmed=confirmed)
        self._finish(ending, self._bounds.usual_s)

    def ending_of_starts(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        confirmed: Callable[[], None],
    ) -> Ending:
        """That commit, to be made; nothing may be open."""

        def heard(_at: float) -> None:
            self._confirm(starts, Work())
            confirmed()

        self.add(starts, records=0)
        self._live_checkpoint.add_for_others(for_others)
        return Ending(self._sending({}), heard, lambda: self._end(Outcome.COMMITTED))

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
        error = error_of(lambda: self._finish(self.ending(), bound_s), AbortableError)
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

    def _sending(self, notes: Mapping[Partition, str]) -> Callable[[Patience, Callable[[], None]], None]:
        checkpoint = self._live_checkpoint

        def send(patience: Patience, confirmed: Callable[[], None]) -> None:
            checkpoint.commit(self._sends_for, patience=patience, metadata=notes, confirmed=confirmed)

        return send

    def _finish(self, ending: Ending, bound_s: float) -> None:
        ending.send(Patience(bound_s, self.publish_if_due), lambda: ending.confirmed(self._clock()))
        ending.conclude()

    def _confirm(self, positions: Mapping[Partition, int], work: Work) -> None:
        """The broker has said that it is committed. It may have become somebody else's in the meantime."""
        self._tally.committed(work)
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
        self._tally.aborted()
        self._bad_records.aborted()
