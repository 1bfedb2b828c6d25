"""What an error means for the open checkpoint and its producer, and what must be settled before reading goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError

from app.wire.heartbeat import EventKind, TaskState
from workers.transactional.checkpoint import Checkpoint
from workers.transactional.checkpoint_size import CheckpointSize
from workers.transactional.checkpoints import Checkpoints
from workers.transactional.control import ProducerIdentity
from workers.transactional.errors import (
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
from workers.transactional.group.membership import Announce
from workers.transactional.group.ownership import Partition
from workers.transactional.records.batching import BatchSize
from workers.transactional.records.suspicion import Suspicion
from workers.transactional.settling import Settling
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally

_IDENTITY_S = 2.0
VISIBLE_WAIT_S = 1.0
"""Who waits longer for the next try says so: nothing is processed meanwhile."""


class Recovery:
    """Decides in one place; what it decides is done by Settling (docs/loop.md has the table).

    Args:
        of: the one partition that it is about, while others go on; None: the whole task.
        why_refused: for a person, with the topic's setting.
    """

    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        settling: Settling,
        suspicion: Suspicion,
        batch_size: BatchSize,
        announce: Announce,
        tally: Tally,
        progress: Progress,
        size: CheckpointSize,
        why_refused: Callable[[RefusedError], str] = str,
        of: Partition | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoints = checkpoints
        self._settling = settling
        self._suspicion = suspicion
        self._batch_size = batch_size
        self._why_refused = why_refused
        self._announce = announce
        self._tally = tally
        self._progress = progress
        self._size = size
        self._of = of
        self._clock = clock

    def guarded(self, action: Callable[[], None]) -> None:
        """Do it, and recover from what a Kafka call answered.

        Raises:
            TaskFailedError, PipelineStopError: this attempt cannot go on.
        """
        error = error_of(action, LoopError)
        if error is not None:
            self.recover(error)

    def recover(self, error: LoopError) -> None:
        """Raises as `guarded`."""
        fenced = error_of(partial(self._recover, error), FencedError)
        if fenced is not None:
            # Learned from the abort. Whoever is fenced has nothing to abort any more, so this ends here.
            self._recover(fenced)

    def replace_producer(self, *, outcome_unknown: bool = False, is_fenced: bool = False) -> None:
        """Let go of the producer with whatever is open in it; its successor's init decides that."""
        producer = self._checkpoints.producer
        if producer is not None:
            identity = producer.identity(timeout_s=_IDENTITY_S)
            self._settling.remember(identity, may_have_bumped=producer.may_have_bumped)
            self._checkpoints.identified(identity)
        self._checkpoints.abandon(outcome_unknown=outcome_unknown)
        self._settling.require_producer(is_fenced=is_fenced)

    def _recover(self, error: LoopError) -> None:
        self._progress.last_error = str(error)
        if isinstance(error, FatalError):
            raise TaskFailedError(str(error)) from error
        checkpoint = self._checkpoints.current
        if checkpoint is not None:
            self._note_failure(error, checkpoint)
        match error:
            case FencedError():
                self._heed_fencing(error)
            case OutcomeUnknownError():
                self._tell(EventKind.OUTCOME_UNKNOWN, error)
                self.replace_producer(outcome_unknown=True)
            case ProducerLostError():
                if checkpoint is not None:
                    self._tell(EventKind.ABORTED, error, self._identity(timeout_s=0))
                self.replace_producer()
            case RefusedError() if checkpoint is not None:
                self._heed_refusal(error, checkpoint)
            case AbortableError() if self._of is not None and not error.keeps_producer:
                # The successor's init aborts it; where each partition has a producer, many aborts would be waited for.
                if checkpoint is not None:
                    self._tell(EventKind.ABORTED, error, self._identity(timeout_s=0))
                self.replace_producer()
            case _:
                self._abort(error)
                if isinstance(error, AbortableError) and not error.keeps_producer:
                    self.replace_producer()
        self._settling.require_rewind()
        is_visible = self._settling.back_off() >= VISIBLE_WAIT_S and self._of is None
        if is_visible and self._progress.state is not TaskState.DRAINING:
            self._progress.enter(TaskState.BACKING_OFF, now=self._clock())

    def _note_failure(self, error: LoopError, checkpoint: Checkpoint) -> None:
        """What was too slow is not tried again as it was, and what is known of why is said with the error."""
        self._size.failed(checkpoint.owned, opened_at=checkpoint.opened_at)
        is_about_time = not isinstance(error, RefusedError | OwnershipChangedError) and self._size.is_too_slow(
            error.code, transaction_opened_at=checkpoint.transaction_opened_at
        )
        if not is_about_time or not checkpoint.records:
            return
        delivered, cause = self._checkpoints.live_producer.slowness()
        self._size.shrink(checkpoint.records, delivered=delivered)
        size = f"at most {self._size.limit:,} instead of {checkpoint.records:,} records"
        self._progress.last_error = f"{error}. {cause}. The next checkpoint holds {size}"

    def _abort(self, error: LoopError) -> None:
        if self._checkpoints.current is None:
            return
        self._tell(EventKind.ABORTED, error, self._identity(timeout_s=0))
        if error_of(self._checkpoints.abort, ProducerLostError) is not None:
            self.replace_producer()

    def _heed_refusal(self, error: RefusedError, checkpoint: Checkpoint) -> None:
        """Look for the record that is refused in smaller checkpoints; a lone one is treated by the policy (rule 7).

        A topic's limit is about compressed bytes: a lone record that is too large is first sent compressed.
        """
        is_lone = checkpoint.records == 1
        is_too_large = error.code == KafkaError.MSG_SIZE_TOO_LARGE and error.setting is None
        if is_lone and is_too_large and self._settling.compress():
            self._suspicion.explained()
        else:
            reason = self._why_refused(error) if is_lone else str(error)
            if is_lone and any(map(self._suspicion.condemned, checkpoint.positions)):
                self._abort(error)
                raise PipelineStopError(f"the dead letter of a refused record is refused too: {reason}") from error
            self._suspicion.refused(checkpoint.positions, records=checkpoint.records, reason=reason)
        self._abort(error)
        # After a refusal librdkafka's next transaction on the partition fails with OUT_OF_ORDER_SEQUENCE_NUMBER.
        self.replace_producer()

    def _heed_fencing(self, error: FencedError) -> None:
        """Its successor is initialised only if the inquiry allows it, as after every other loss of a producer."""
        self._tally.fenced()
        if self._of is None:
            self._progress.enter(TaskState.FENCED, now=self._clock())
        producer = self._identity(timeout_s=_IDENTITY_S)
        self._tell(EventKind.FENCED, error, producer)
        self.replace_producer(outcome_unknown=error.outcome_unknown, is_fenced=True)
        self._batch_size.start_over()

    def _tell(self, kind: EventKind, error: LoopError, producer: ProducerIdentity | None = None) -> None:
        partitions = () if self._of is None else (f"{self._of[0]}-{self._of[1]}",)
        self._announce(
            kind, self._progress.last_error or str(error), error=error.name, producer=producer, partitions=partitions
        )

    def _identity(self, *, timeout_s: float) -> ProducerIdentity | None:
        """Whose the trouble is: the snapshot's producer may be the one before."""
        producer = self._checkpoints.producer
        return None if producer is None else producer.identity(timeout_s=timeout_s)
