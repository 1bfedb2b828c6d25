"""One checkpoint: outputs and input offsets that become visible together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from confluent_kafka import TopicPartition

from app.core.clusters.partition import Partition
from app.kit.errors import IllegalTransitionError
from workers.loop.errors import AbortableError, FencedError, OwnershipChangedError
from workers.loop.group.leader_epochs import NO_EPOCH
from workers.loop.group.ownership import Ownership
from workers.loop.producing.producers import SendsFor, TaskProducer
from workers.loop.slices import CallPatience


class CheckpointState(StrEnum):
    """
    OPEN ─▶ COMMITTING ─▶ COMMITTED
      │         ├───────▶ UNKNOWN    the commit call was made and its answer is missing
      ▼         ▼
    ABORTED ◀───┘                    COMMITTING ends here only while the commit call has not been made, or was refused
    """

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


TRANSITIONS: dict[CheckpointState, frozenset[CheckpointState]] = {
    CheckpointState.OPEN: frozenset({CheckpointState.COMMITTING, CheckpointState.ABORTED}),
    CheckpointState.COMMITTING: frozenset(
        {CheckpointState.COMMITTED, CheckpointState.UNKNOWN, CheckpointState.ABORTED}
    ),
    CheckpointState.COMMITTED: frozenset(),
    CheckpointState.ABORTED: frozenset(),
    CheckpointState.UNKNOWN: frozenset(),
}


class Checkpoint:
    """One transaction of one task: begun by the first record, ended by `commit`, by `abort`, or as *unknown* (rule 6).

    commit:
      1. flush the producer            no delivery may be open when offsets follow, and offsets that are sent beside
                                       outputs still on their way cost 100 ms instead of 1 ms. The files of a file
                                       pipeline are uploaded in here, and only then its transaction begins
      2. send the input offsets        only if every partition has the ownership number it was polled under; the group
                                       metadata is read here, now, on the polling thread
      3. commit the transaction        from here on the outputs are visible and the input is consumed

    An error in steps 1 and 2 leaves the checkpoint to `abort`. In step 3 two answers do so too: the transaction must be
    aborted, or it was fenced before the commit was requested. After any other error the outcome is unknown, also with a
    fatal client: the request may have been answered without a client to receive it. Then the producer can only be
    discarded.
    """

    def __init__(
        self,
        producer: TaskProducer,
        ownership: Ownership,
        *,
        epoch_of: Callable[[Partition, int], int] = lambda _partition, _offset: NO_EPOCH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            epoch_of: the leader epoch under which the record before an offset was read; committed with the offset.
        """
        self.opened_at = clock()
        self._epoch_of = epoch_of
        self._clock = clock
        self.records = 0
        self._state = CheckpointState.OPEN
        self._producer = producer
        self._ownership = ownership
        self._numbers: dict[Partition, int] = {}
        self._positions: dict[Partition, int] = {}
        self._for_others: dict[Partition, int] = {}
        producer.begin()

    @property
    def transaction_opened_at(self) -> float | None:
        """The time since which the brokers have it open; None: not yet (see FileProducer)."""
        return self._producer.transaction_since(self.opened_at)

    def is_full(self, *, most: int) -> bool:
        """True if it should end before its time. `most`: how many records may be in a transaction."""
        return self._producer.is_full(self.records, most=most)

    @property
    def state(self) -> CheckpointState:
        return self._state

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The next offset to read of every partition in it."""
        return self._positions

    @property
    def owned(self) -> frozenset[Partition]:
        """Those of its partitions that the task still owns."""
        return self._ownership.owned.intersection(self._positions)

    def add(self, positions: Mapping[Partition, int], *, records: int) -> None:
        """Make a polled batch part of this checkpoint.

        Call it after the batch was polled and before the next poll, so that the ownership numbers are those under
        which its records came.

        Args:
            positions: the consumer's position after the batch, of every partition that the batch has moved.
            records: how many records the batch holds.
        """
        self._require(CheckpointState.OPEN)
        for partition, position in positions.items():
            self._numbers.setdefault(partition, self._ownership.number(partition))
            self._positions[partition] = position
        self.records += records

    def add_for_others(self, starts: Mapping[Partition, int]) -> None:
        """Add start offsets of partitions that this task need not own and no task has begun to read (see Starting)."""
        self._require(CheckpointState.OPEN)
        self._for_others.update(starts)

    def commit(
        self,
        sends_for: SendsFor,
        *,
        patience: CallPatience,
        metadata: Mapping[Partition, str] | None = None,
        confirmed: Callable[[], None] = lambda: None,
    ) -> None:
        """Commit, in the steps that the class lists.

        Args:
            sends_for: the source of the group metadata for the offsets.
            patience: the bound of all steps together; the commit is requested at least once.
            metadata: the offset metadata of partitions; empty for those without an entry.
            confirmed: called when the broker has confirmed the commit; at_least_once does not wait for that.

        Raises:
            OwnershipChangedError: before anything was sent.
            OutcomeUnknownError, FencedError, AbortableError, FatalError: from the producer.
        """
        self._move(CheckpointState.COMMITTING)
        deadline = self._clock() + patience.bound_s
        self._producer.flush(patience=patience)
        self._require_ownership()
        texts = metadata or {}
        offsets = [
            TopicPartition(*name, position, metadata=texts.get(name, ""), leader_epoch=self._epoch_of(name, position))
            for name, position in (self._positions | self._for_others).items()
        ]
        self._producer.send_offsets(offsets, sends_for, patience=patience.until(deadline, clock=self._clock))
        try:
            self._producer.commit(patience=patience.until(deadline, clock=self._clock), confirmed=confirmed)
        except AbortableError:
            raise
        except BaseException as error:
            if not isinstance(error, FencedError) or error.outcome_unknown:
                self._move(CheckpointState.UNKNOWN)
            raise
        self._move(CheckpointState.COMMITTED)

    def require_ownership(self) -> None:
        """Raises OwnershipChangedError if it is open and can never be committed, so that it can end at once."""
        if self._state is CheckpointState.OPEN:
            self._require_ownership()

    def abort(self, *, patience: CallPatience) -> None:
        """Abort it. It counts as ended even if this raises; the producer must be discarded then."""
        self._move(CheckpointState.ABORTED)
        self._producer.abort(patience=patience)

    @property
    def is_open(self) -> bool:
        """True until its outcome is decided, or unknown."""
        return self._state in (CheckpointState.OPEN, CheckpointState.COMMITTING)

    def _require_ownership(self) -> None:
        changed = self._ownership.changed_among(self._numbers)
        if changed:
            raise OwnershipChangedError(
                "not committed: partitions were revoked after their records were polled: "
                + ", ".join(f"{topic}-{number}" for topic, number in changed)
            )

    def _require(self, state: CheckpointState) -> None:
        if self._state is not state:
            raise IllegalTransitionError(f"the checkpoint is {self._state}, expected: {state}")

    def _move(self, to: CheckpointState) -> None:
        if to not in TRANSITIONS[self._state]:
            raise IllegalTransitionError(f"a checkpoint cannot go from {self._state} to {to}")
        self._state = to
