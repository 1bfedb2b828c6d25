"""The current state of every transactional id, computed from the records of `__transaction_state`.

The computation tolerates repeated records (by position), compaction (any record may be an id's first) and unknown
versions (counted). It also tolerates a start in the middle (`Reading.positions` has it). A move of the coordinator
leaves no trace in it. The number of ids bounds the memory. In an id's history only steps that are not routine are kept,
the newest `MAX_STEPS` of them, packed. There are tens of thousands of ids, and few are displayed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec.structs import astuple

from app.core.journals import transaction_state
from app.core.journals.reading import JournalCounts
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.core.journals.transaction_pace import TransactionPace
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.journals.wire_message import Undecodable

MAX_STEPS = 20
_KIP_890 = 2
# An enum's own members are slow to look up, and these are used for every record.
_EMPTY = TransactionStatus.EMPTY
_ONGOING = TransactionStatus.ONGOING
_COMPLETE_COMMIT = TransactionStatus.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionStatus.COMPLETE_ABORT


class ClientProtocol(StrEnum):
    """TV_2 clients (KIP-890) get the next epoch with every commit and abort, TV_0 clients keep theirs.

    Records of version 0 do not have it, nor do those that the coordinator wrote by itself.
    """

    TV_0 = "TV_0"
    TV_2 = "TV_2"
    UNKNOWN = "unknown"


class EpochStepKind(StrEnum):
    """The reason of a change of producer id or epoch, by one record alone; a fencing cause needs several.

    FIRST_SEEN: the first record that was read. INITIALISED: InitProducerId was answered. ABORTED: a transaction was
    ended at the next epoch, by the coordinator (timeout, takeover, operator) or by a TV_2 client itself. ADVANCED: an
    epoch changed without a record of the reason, as after compaction.
    """

    FIRST_SEEN = "first_seen"
    INITIALISED = "initialised"
    ABORTED = "aborted"
    ADVANCED = "advanced"


class RecordedState(msgspec.Struct, frozen=True, gc=False):
    """A state in the journal, at `offset` of its id's partition, appended at `timestamp_ms`.

    partitions: those of an open transaction; they are dropped in other states to bound the memory.
    """

    offset: int
    timestamp_ms: int
    status: TransactionStatus
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    last_update_ms: int
    client_transaction_version: int
    version: int
    partitions: tuple[TopicPartitions, ...] = ()


R = TypeVar("R", bound=RecordedState)


def recorded(state: TransactionState, offset: int, timestamp_ms: int) -> RecordedState:
    return _recorded(RecordedState, state, offset, timestamp_ms)


def _recorded(made: type[R], state: TransactionState, offset: int, timestamp_ms: int) -> R:
    return made(
        offset,
        timestamp_ms,
        state.status,
        state.producer_id,
        state.producer_epoch,
        state.timeout_ms,
        state.start_ms,
        state.last_update_ms,
        state.client_transaction_version,
        state.version,
        state.partitions or () if state.status is TransactionStatus.ONGOING else (),
    )


class EpochStep(msgspec.Struct, frozen=True, gc=False):
    """The id's first record with this producer id and epoch, and the records that its cause is judged by.

    before: the id's previous record; None for the first record that was read.
    then: the next record, unless that is a step itself or the end of this step's abort. Kept only with `before`:
    without it nothing is judged.
    """

    kind: EpochStepKind
    record: RecordedState
    before: RecordedState | None = None
    then: RecordedState | None = None

    @property
    def producer_id(self) -> int:
        return self.record.producer_id

    @property
    def producer_epoch(self) -> int:
        return self.record.producer_epoch

    @property
    def at_ms(self) -> int:
        return self.record.last_update_ms

    @property
    def offset(self) -> int:
        return self.record.offset


class _KeptRecord(RecordedState, frozen=True, gc=False, array_like=True):
    """The same without field names."""

    def unpacked(self) -> RecordedState:
        return RecordedState(*astuple(self))

    def shifted(self, shift_ms: int) -> _KeptRecord:
        return msgspec.structs.replace(
            self,
            timestamp_ms=_shifted(self.timestamp_ms, shift_ms),
            start_ms=_shifted(self.start_ms, shift_ms),
            last_update_ms=_shifted(self.last_update_ms, shift_ms),
        )


class _KeptStep(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A packed Step, in a tenth of the memory of its values, of which every number is an object."""

    kind: EpochStepKind
    record: _KeptRecord
    before: _KeptRecord | None = None
    then: _KeptRecord | None = None

    def unpacked(self) -> EpochStep:
        before = None if self.before is None else self.before.unpacked()
        then = None if self.then is None else self.then.unpacked()
        return EpochStep(self.kind, self.record.unpacked(), before, then)

    def shifted(self, shift_ms: int) -> _KeptStep:
        before = None if self.before is None else self.before.shifted(shift_ms)
        then = None if self.then is None else self.then.shifted(shift_ms)
        return _KeptStep(self.kind, self.record.shifted(shift_ms), before, then)


def _shifted(at_ms: int, shift_ms: int) -> int:
    """Times below zero mean "none" and stay."""
    return at_ms + shift_ms if at_ms >= 0 else at_ms


_packed = msgspec.msgpack.Encoder().encode
_kept = msgspec.msgpack.Decoder(_KeptStep).decode


class LiveTransaction(msgspec.Struct, frozen=True, gc=False):
    """One transactional id as of its newest record: at `offset` of `partition`, appended at `timestamp_ms`.

    past: its steps, packed. steps_dropped: the number of older ones. commits, aborts: since the start of reading.
    awaits: the next record, which the newest step is judged by, is still missing.
    """

    transactional_id: str
    state: TransactionState
    partition: int
    offset: int
    client_protocol: ClientProtocol = ClientProtocol.UNKNOWN
    past: tuple[bytes, ...] = ()
    steps_dropped: int = 0
    commits: int = 0
    aborts: int = 0
    timestamp_ms: int = -1
    awaits: bool = False

    @property
    def steps(self) -> tuple[EpochStep, ...]:
        """Oldest first; unpacked at each access."""
        return tuple(_kept(step).unpacked() for step in self.past)

    @property
    def is_stepped(self) -> bool:
        """True if a step has a record before it: only the first step has none."""
        return len(self.past) > 1

    @property
    def newest(self) -> RecordedState:
        return recorded(self.state, self.offset, self.timestamp_ms)

    @property
    def is_open(self) -> bool:
        """True if it may block read_committed consumers."""
        return self.state.status.is_open

    @property
    def is_from_journal(self) -> bool:
        """False for answers of admin requests: they have no history, and not the time of the state's begin."""
        return self.offset >= 0

    @property
    def times_out_at_ms(self) -> int | None:
        """The time from which the coordinator may end it; None if it is complete or its outcome is decided."""
        if self.state.status is not TransactionStatus.ONGOING:
            return None
        return self.state.start_ms + self.state.timeout_ms

    def shifted(self, shift_ms: int) -> LiveTransaction:
        """Return the same with every time later by `shift_ms`, including those of its steps."""
        state = msgspec.structs.replace(
            self.state,
            start_ms=_shifted(self.state.start_ms, shift_ms),
            last_update_ms=_shifted(self.state.last_update_ms, shift_ms),
        )
        return msgspec.structs.replace(
            self,
            state=state,
            timestamp_ms=_shifted(self.timestamp_ms, shift_ms),
            past=tuple(_packed(_kept(step).shifted(shift_ms)) for step in self.past),
        )


def fold(
    before: LiveTransaction | None,
    transactional_id: str,
    state: TransactionState,
    *,
    partition: int,
    offset: int,
    timestamp_ms: int,
) -> LiveTransaction:
    """Apply one more record of the id."""
    protocol = _protocol(before, state)
    kind = _step_kind(before, state, protocol)
    past: tuple[bytes, ...] = ()
    dropped = commits = aborts = 0
    awaits = False
    if before is not None:
        past, awaits, dropped = before.past, before.awaits, before.steps_dropped
        commits, aborts = before.commits, before.aborts
    if kind is not None:
        record = _recorded(_KeptRecord, state, offset, timestamp_ms)
        was = None if before is None else _recorded(_KeptRecord, before.state, before.offset, before.timestamp_ms)
        past, awaits = (*past, _packed(_KeptStep(kind, record, was))), was is not None
        if len(past) > MAX_STEPS:
            past, dropped = past[1:], dropped + 1
    elif past and awaits:
        last = _kept(past[-1])
        # The end of the step's own abort does not count.
        if last.kind is not EpochStepKind.ABORTED or not state.status.is_abort:
            then = _recorded(_KeptRecord, state, offset, timestamp_ms)
            past, awaits = (*past[:-1], _packed(_KeptStep(last.kind, last.record, last.before, then))), False
    return LiveTransaction(
        transactional_id,
        state,
        partition,
        offset,
        protocol,
        past,
        dropped,
        commits + (state.status is _COMPLETE_COMMIT),
        aborts + (state.status is _COMPLETE_ABORT),
        timestamp_ms,
        awaits,
    )


def _protocol(before: LiveTransaction | None, state: TransactionState) -> ClientProtocol:
    """Records of the client's own requests have its protocol: those that add partitions."""
    if state.status is _ONGOING and state.version >= 1:
        return ClientProtocol.TV_2 if state.client_transaction_version >= _KIP_890 else ClientProtocol.TV_0
    if before is None or state.version == 0:
        return ClientProtocol.UNKNOWN
    return before.client_protocol


def _step_kind(
    before: LiveTransaction | None, state: TransactionState, protocol: ClientProtocol
) -> EpochStepKind | None:
    """Return None for routine changes: the same epoch, or the next one with a TV_2 client's commit."""
    is_init = state.status is _EMPTY
    if before is None:
        return EpochStepKind.INITIALISED if is_init else EpochStepKind.FIRST_SEEN
    was = before.state
    if state.producer_epoch == was.producer_epoch and state.producer_id == was.producer_id:
        return None
    if is_init:
        return EpochStepKind.INITIALISED
    if state.status.is_abort:
        return EpochStepKind.ABORTED
    # Also for a used-up producer id: the commit at the last epoch continues with the next id at epoch 0.
    is_commit = state.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
    return None if is_commit and protocol is ClientProtocol.TV_2 else EpochStepKind.ADVANCED


class LiveTransactions(msgspec.Struct):
    """All ids, and the positions in the journal. A restart continues from its MessagePack.

    commits, aborts: of all ids that were ever read, including expired ones; records read twice count twice.
    """

    reading: JournalCounts = msgspec.field(default_factory=JournalCounts)
    ids: dict[str, LiveTransaction] = {}
    expired: int = 0
    pace: TransactionPace = msgspec.field(default_factory=TransactionPace)
    commits: int = 0
    aborts: int = 0

    def apply(
        self,
        partition: int,
        batch: RecordBatch | UnreadableBatch,
        *,
        on_step: Callable[[str], object] = lambda _: None,
    ) -> list[str]:
        """Apply a batch, and return the changed ids, including expired ones.

        on_step: called with each id for which a record made a step, or completed one as its next record.
        """
        changed: list[str] = []
        if not self.reading.is_news(partition, batch):
            return changed
        ids = self.ids
        for record in self.reading.records_of(batch):
            transactional_id = transaction_state.decode_key(record.key or b"")
            if isinstance(transactional_id, Undecodable):
                self.reading.count_unreadable(transactional_id)
                continue
            state = transaction_state.decode_value(record.value)
            if isinstance(state, TransactionState):
                before = ids.get(transactional_id)
                if before is not None:
                    # One string object for all records of an id.
                    transactional_id = before.transactional_id
                self.pace.note(before and before.state, state, record.timestamp_ms)
                self.commits += state.status is _COMPLETE_COMMIT
                self.aborts += state.status is _COMPLETE_ABORT
                live = ids[transactional_id] = fold(
                    before,
                    transactional_id,
                    state,
                    partition=partition,
                    offset=record.offset,
                    timestamp_ms=record.timestamp_ms,
                )
                if before is None or live.past is not before.past:
                    on_step(transactional_id)
            elif state is None:
                self.expired += ids.pop(transactional_id, None) is not None
            else:
                self.reading.count_unreadable(state)
                continue
            changed.append(transactional_id)
        return changed

    def forget(self, partition: int) -> list[str]:
        """Drop the state of this partition, to read it from its beginning; return the dropped ids."""
        gone = [name for name, live in self.ids.items() if live.partition == partition]
        for name in gone:
            del self.ids[name]
        self.reading.forget(partition)
        self.pace.begin_anew()
        return gone
