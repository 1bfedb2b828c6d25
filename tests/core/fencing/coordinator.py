"""A transaction coordinator of one id, as far as its journal goes: what it writes and, beside it, what really happened.

Source: Kafka, TransactionCoordinator and TransactionMetadata (3.9 and 4.3). The batches are those of the decoders' own
encoders; the recorded journals hold the scenes that the recordings have.
"""

from __future__ import annotations

from enum import Enum

from app.core.fencing.cause import judge_case
from app.core.fencing.fencing_event import FencingCause, FencingEvent
from app.core.fencing.steps import cases_of
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.journals.record_batch import RecordBatch
from app.core.journals.transaction_state import (
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    encode_key,
    encode_value,
)
from tests.core.journals.batches import batch_of

ID = "fl.t.flights.0.1"
CLUSTER = "cluster"
TIMEOUT_MS = 10_000
EXHAUSTED = 32_766
S = TransactionStatus


class Client(Enum):
    """(version of the records, client transaction version)."""

    BEFORE_V1 = (0, 0)
    TV_0 = (1, 0)
    TV_2 = (1, 2)


class Coordinator:
    """`truth`: for every producer whose epoch ended, what ended it. `robbed`: those that had a transaction open."""

    def __init__(
        self, client: Client = Client.TV_0, *, epoch: int = 0, now_ms: int = 1_000_000, transactional_id: str = ID
    ) -> None:
        self.transactional_id = transactional_id
        self.version, self.client = client.value
        self.batches: list[RecordBatch] = []
        self.truth: dict[tuple[int, int], FencingCause] = {}
        self.robbed: set[tuple[int, int]] = set()
        self.now_ms = now_ms
        self.producer_id, self.epoch = 7, epoch - 1
        self._status = S.EMPTY
        self._start_ms = -1
        self.has_owner = False
        self.init(after_ms=0)

    @property
    def owner(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    @property
    def is_open(self) -> bool:
        return self._status is S.ONGOING

    def init(self, *, after_ms: int = 5_000, retry_ms: int = 500) -> None:
        """A producer starts; with a transaction open it must retry, which it does after `retry_ms`."""
        self.now_ms += after_ms
        if self.is_open:
            self.truth[self.owner] = FencingCause.TAKEOVER
            self._abort_at_next_epoch()
            self.now_ms += retry_ms
        elif self.has_owner:
            exhausted = self.epoch >= EXHAUSTED
            self.truth[self.owner] = FencingCause.EPOCHS_USED_UP if exhausted else FencingCause.CLEAN_RESTART
        self._next_owner()

    def fence(self, *, after_ms: int = 100) -> None:
        """FenceProducers: an init that no producer sends."""
        victim = self.owner
        self.init(after_ms=after_ms, retry_ms=100)
        if victim in self.truth:
            self.truth[victim] = FencingCause.OPERATOR_FENCE
        self.has_owner = False

    def end_dead(self, *, after_ms: int = 3_000) -> None:
        """EndTxn at the owner's epoch, by a server with a report of its death."""
        self.now_ms += after_ms
        self.truth[self.owner] = FencingCause.DEAD_TASK
        self._abort_at_next_epoch()
        self.has_owner = False

    def begin(self, *, after_ms: int = 50) -> None:
        self.now_ms += after_ms
        self._start_ms = self.now_ms
        self._write(S.ONGOING, client=self.client)

    def commit(self, *, after_ms: int = 100) -> None:
        self._end(S.PREPARE_COMMIT, S.COMPLETE_COMMIT, after_ms)

    def abort(self, *, after_ms: int = 100) -> None:
        self._end(S.PREPARE_ABORT, S.COMPLETE_ABORT, after_ms)

    def time_out(self, *, scanned_after_ms: int = 3_000) -> None:
        # The coordinator's own look decides, by its clock, which may be far ahead of the one that it began by.
        self.now_ms = max(self.now_ms, self._start_ms + TIMEOUT_MS) + scanned_after_ms
        self.truth[self.owner] = FencingCause.TIMEOUT
        self._abort_at_next_epoch()
        self.has_owner = False

    def _end(self, prepare: TransactionStatus, complete: TransactionStatus, after_ms: int) -> None:
        self.now_ms += after_ms
        is_last = self.epoch >= EXHAUSTED
        if self.client == 2 and prepare is S.PREPARE_ABORT:
            self.truth[self.owner] = FencingCause.OWN_ABORT
        if self.client == 2:
            self.epoch += 1
        self._write(prepare, client=self.client)
        if self.client == 2 and is_last:
            self.producer_id, self.epoch = self.producer_id + 100, 0
        self.now_ms += 3
        self._write(complete, client=self.client)

    def _abort_at_next_epoch(self) -> None:
        self.robbed.add(self.owner)
        self.epoch += 1
        self._write(S.PREPARE_ABORT, client=2 * self.version)
        self.now_ms += 3
        self._write(S.COMPLETE_ABORT, client=2 * self.version)

    def _next_owner(self) -> None:
        if self.epoch >= EXHAUSTED:
            self.producer_id, self.epoch = self.producer_id + 100, 0
        else:
            self.epoch += 1
        self.has_owner = True
        self._write(S.EMPTY, client=0)

    def _write(self, status: TransactionStatus, *, client: int) -> None:
        self._status = status
        state = TransactionState(
            self.producer_id,
            self.epoch,
            TIMEOUT_MS,
            status,
            None
            if status is S.EMPTY
            else (TopicPartitions("delayed", (0, 1)), TopicPartitions("__consumer_offsets", (3,))),
            last_update_ms=self.now_ms,
            start_ms=-1 if status is S.EMPTY else self._start_ms,
            client_transaction_version=client if self.version else 0,
            version=self.version,
        )
        written = (encode_key(self.transactional_id), encode_value(state))
        self.batches.append(batch_of([written], base_offset=len(self.batches), timestamp_ms=self.now_ms + 1))

    @property
    def live(self) -> LiveTransaction:
        return live_of(self.batches, self.transactional_id)

    def events(self) -> dict[tuple[int, int], FencingEvent]:
        return events_of(self.batches)


def live_of(batches: list[RecordBatch], transactional_id: str = ID) -> LiveTransaction:
    folded = LiveTransactions()
    for batch in batches:
        folded.apply(0, batch)
    return folded.ids[transactional_id]


def events_of(batches: list[RecordBatch]) -> dict[tuple[int, int], FencingEvent]:
    """The cases of this journal, by the victim."""
    return {
        (event.key.producer_id, event.key.producer_epoch): event
        for case in (cases_of(live_of(batches), kafka_cluster_id=CLUSTER) if batches else ())
        if (event := judge_case(case)) is not None
    }
