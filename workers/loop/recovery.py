"""The treatment of an error: of the open checkpoint, of its producer, and of the lane before it reads again."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from app.core.wire.heartbeat import EventKind, TaskState
from workers.loop.checkpoint import Checkpoint
from workers.loop.errors import (
    AbortableError,
    FatalError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    OwnershipChangedError,
    PipelineStopError,
    ProducerLostError,
    RefusedError,
    TaskFailedError,
    error_of,
)
from workers.loop.group.membership import Announce
from workers.loop.records.batching import BatchSize
from workers.loop.telling.progress import ProgressReporter

if TYPE_CHECKING:
    from workers.loop.lane import Lane

_IDENTITY_S = 2.0
VISIBLE_WAIT_S = 1.0
"""A longer wait for the next attempt is reported: nothing is processed meanwhile."""


class Decision(NamedTuple):
    """The treatment of an error, in this order. Afterwards the lane always rewinds, and waits before the next attempt.

    is_refusal: the refused record is searched in smaller checkpoints (rule 7).
    reports: the event that is reported; None: nothing was open, so nothing is reported.
    aborts: the open transaction is aborted with its own producer.
    replaces: the producer is discarded, and the init of its successor decides the open transaction.
    outcome_unknown: the commit was requested; no answer shows whether it succeeded; a fencing error does not either.
    is_fenced: the successor is initialised only if this attempt may still have the id (rule 5).
    """

    reports: EventKind | None
    is_refusal: bool = False
    aborts: bool = False
    replaces: bool = False
    outcome_unknown: bool = False
    is_fenced: bool = False


def decide(error: LoopError, *, is_open: bool, is_of_partition: bool) -> Decision:
    """Decide the treatment of `error`; docs/loop.md has the same as a table.

    Args:
        is_open: whether a checkpoint is open.
        is_of_partition: whether the producer is for one partition. Then an unknown transaction is left to the init of
            the successor: many aborts, one after the other, would delay the loop.
    """
    aborted = EventKind.ABORTED if is_open else None
    match error:
        case FencedError():
            return Decision(EventKind.FENCED, replaces=True, outcome_unknown=error.outcome_unknown, is_fenced=True)
        case OutcomeUnknownError():
            return Decision(EventKind.OUTCOME_UNKNOWN, replaces=True, outcome_unknown=True)
        case ProducerLostError():
            return Decision(aborted, replaces=True)
        case RefusedError() if is_open:
            # After a refusal librdkafka's next transaction on the partition fails with OUT_OF_ORDER_SEQUENCE_NUMBER.
            return Decision(aborted, is_refusal=True, aborts=True, replaces=True)
        case AbortableError() if not error.keeps_producer:
            return Decision(aborted, aborts=is_open and not is_of_partition, replaces=True)
        case _:
            return Decision(aborted, aborts=is_open)


class Recovery:
    """Carries out the decisions of `decide`; Settling does the steps before reading continues.

    Args:
        why_refused: the reason for a user, with the topic's setting.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        batch_size: BatchSize,
        announce: Announce,
        progress: ProgressReporter,
        why_refused: Callable[[RefusedError], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lane = lane
        self._batch_size = batch_size
        self._why_refused = why_refused
        self._announce = announce
        self._progress = progress
        self._clock = clock

    def guarded(self, action: Callable[[], None]) -> None:
        """Run the action, and recover from an error of a Kafka call.

        Raises:
            TaskFailedError, PipelineStopError: this attempt cannot continue.
            SupersededError: passes through, since it is no LoopError.
        """
        error = error_of(action, LoopError)
        if error is not None:
            self.recover(error)

    def recover(self, error: LoopError) -> None:
        """Raises as `guarded`."""
        fenced = error_of(partial(self._recover, error), FencedError)
        if fenced is not None:
            # Reported by the abort. A fenced producer has nothing to abort any more, so this ends here.
            self._recover(fenced)

    def replace_producer(self, *, outcome_unknown: bool = False, is_fenced: bool = False) -> None:
        """Discard the producer with its open transaction; the init of its successor decides that transaction."""
        producer = self._lane.producer
        if producer is not None:
            identity = producer.identity(timeout_s=_IDENTITY_S)
            self._lane.settling.remember(identity, may_have_bumped=producer.may_have_bumped)
            self._lane.identified(identity)
        self._lane.abandon(outcome_unknown=outcome_unknown)
        self._lane.settling.require_producer(is_fenced=is_fenced)

    def _recover(self, error: LoopError) -> None:
        self._progress.last_error = str(error)
        if isinstance(error, FatalError):
            raise TaskFailedError(str(error)) from error
        checkpoint = self._lane.current
        if checkpoint is not None:
            self._note_failure(error, checkpoint)
        decision = decide(error, is_open=checkpoint is not None, is_of_partition=self._lane.partition is not None)
        self._carry_out(decision, error, checkpoint)
        self._lane.settling.require_rewind()
        is_visible = self._lane.settling.back_off() >= VISIBLE_WAIT_S and self._lane.partition is None
        if is_visible and self._progress.state is not TaskState.DRAINING:
            self._progress.enter(TaskState.BACKING_OFF, now=self._clock())

    def _note_failure(self, error: LoopError, checkpoint: Checkpoint) -> None:
        """Make the next checkpoint smaller after a slow one, and report the known cause with the error."""
        self._lane.size.failed(checkpoint.owned, opened_at=checkpoint.opened_at)
        is_about_time = not isinstance(error, RefusedError | OwnershipChangedError) and self._lane.size.is_too_slow(
            error.code, transaction_opened_at=checkpoint.transaction_opened_at
        )
        if not is_about_time or not checkpoint.records:
            return
        delivered, cause = self._lane.live_producer.slowness()
        self._lane.size.shrink(checkpoint.records, delivered=delivered)
        size = f"at most {self._lane.size.limit:,} instead of {checkpoint.records:,} records"
        self._progress.last_error = f"{error}. {cause}. The next checkpoint holds {size}"

    def _carry_out(self, decision: Decision, error: LoopError, checkpoint: Checkpoint | None) -> None:
        if decision.is_fenced:
            self._lane.tally.fenced()
            if self._lane.partition is None:
                self._progress.enter(TaskState.FENCED, now=self._clock())
        stops = None
        if decision.is_refusal and isinstance(error, RefusedError) and checkpoint is not None:
            stops = self._look_for_refused(error, checkpoint)
        if decision.reports is not None:
            self._tell(decision.reports, error)
        is_lost = decision.aborts and error_of(self._lane.abort, ProducerLostError) is not None
        if is_lost or (decision.replaces and stops is None):
            self.replace_producer(outcome_unknown=decision.outcome_unknown, is_fenced=decision.is_fenced)
        if stops is not None:
            raise PipelineStopError(stops) from error
        if decision.is_fenced:
            self._batch_size.start_over()

    def _look_for_refused(self, error: RefusedError, checkpoint: Checkpoint) -> str | None:
        """Search the refused record in smaller checkpoints; a lone one is treated by the policy (rule 7).

        A topic's limit applies to compressed bytes: a lone record that is too large is first sent compressed.

        Returns:
            The reason why the pipeline must stop and needs a user. None: it continues.
        """
        is_lone = checkpoint.records == 1
        is_too_large = error.code == KafkaError.MSG_SIZE_TOO_LARGE and error.setting is None
        if is_lone and is_too_large and self._lane.settling.compress():
            self._lane.suspicion.explained()
            return None
        reason = self._why_refused(error) if is_lone else str(error)
        if is_lone and any(map(self._lane.suspicion.condemned, checkpoint.positions)):
            return f"the dead letter of a refused record is refused too: {reason}"
        self._lane.suspicion.refused(checkpoint.positions, records=checkpoint.records, reason=reason)
        return None

    def _tell(self, kind: EventKind, error: LoopError) -> None:
        """Report the error. `producer` of the event: its owner; the snapshot's producer may be the one before."""
        producer = self._lane.producer
        waits_s = {EventKind.FENCED: _IDENTITY_S, EventKind.ABORTED: 0.0}.get(kind)
        identity = None if producer is None or waits_s is None else producer.identity(timeout_s=waits_s)
        of = self._lane.partition
        partitions = () if of is None else (f"{of[0]}-{of[1]}",)
        self._announce(
            kind, self._progress.last_error or str(error), error=error.name, producer=identity, partitions=partitions
        )
