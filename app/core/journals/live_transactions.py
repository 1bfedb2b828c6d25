"""What `__transaction_state` says of every transactional id now, folded from its records.

The fold survives what journals do: records read twice (by position), compaction (any record may be an id's first),
a beginning in the middle (`Reading.positions` says from where), versions of the future (counted). A move of the
coordinator leaves no trace in it. Memory is bounded by the number of ids: of an id's past only steps are kept that
are not routine, the newest `MAX_STEPS` of them, packed: there are tens of thousands of ids, and few are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec.structs import astuple

from app.core.journals import transaction_state
from app.core.journals.reading import Reading
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.core.journals.transaction_pace import TransactionPace
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.journals.wire_message import Undecodable

MAX_STEPS = 20
_KIP_890 = 2
# An enum's own members are slow to look up, and these are asked of every record.
_EMPTY = TransactionStatus.EMPTY
_ONGOING = TransactionStatus.ONGOING
_COMPLETE_COMMIT = TransactionStatus.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionStatus.COMPLETE_ABORT


class ClientProtocol(StrEnum):
    """TV_2 clients (KIP-890) get the next epoch with every commit and abort, TV_0 clients keep theirs.

    Records of version 0 do not say it, nor does one that the coordinator wrote by itself.
    """

    TV_0 = "TV_0"
    TV_2 = "TV_2"
    UNKNOWN = "unknown"


class StepKind(StrEnum):
    """Why producer id or epoch changed, as far as one record tells; what fenced whom is judged from several.

    FIRST_SEEN: reading began with it. INITIALISED: InitProducerId was answered. ABORTED: a transaction was ended at the
    next epoch, by the coordinator (timeout, takeover, operator) or by a TV_2 client itself. ADVANCED: an epoch moved
    without a record that says why, as after compaction.
    """

    FIRST_SEEN = "first_seen"
    INITIALISED = "initialised"
    ABORTED = "aborted"
    ADVANCED = "advanced"


class RecordedState(msgspec.Struct, frozen=True, gc=False):
    """A state as the journal has it, at `offset` of its id's partition, appended at `timestamp_ms`.

    partitions: those of an open transaction; of other states they are not kept, because the past must be small.
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


class Step(msgspec.Struct, frozen=True, gc=False):
    """The id's first record with this producer id and epoch, and what it is judged by.

    before: the id's record before it; None where reading began with this one.
    then: what came next, unless that is a step itself; the end of the abort that this step began is not meant.
        Kept only where `before` is: without it nothing is judged.
    """

    kind: StepKind
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
    """The same without the names of its fields."""

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
    """A Step as it is kept: packed, in a tenth of the memory of its values, of which every number is an object."""

    kind: StepKind
    record: _KeptRecord
    before: _KeptRecord | None = None
    then: _KeptRecord | None = None

    def unpacked(self) -> Step:
        before = None if self.before is None else self.before.unpacked()
        then = None if self.then is None else self.then.unpacked()
        return Step(self.kind, self.record.unpacked(), before, then)

    def shifted(self, shift_ms: int) -> _KeptStep:
        before = None if self.before is None else self.before.shifted(shift_ms)
        then = None if self.then is None else self.then.shifted(shift_ms)
        return _KeptStep(self.kind, self.record.shifted(shift_ms), before, then)


def _shifted(at_ms: int, shift_ms: int) -> int:
    """Below zero: there is no such moment."""
    return at_ms + shift_ms if at_ms >= 0 else at_ms


_packed = msgspec.msgpack.Encoder().encode
_kept = msgspec.msgpack.Decoder(_KeptStep).decode


class LiveTransaction(msgspec.Struct, frozen=True, gc=False):
    """One transactional id as of its newest record: at `offset` of `partition`, appended at `timestamp_ms`.

    past: its steps, packed. steps_dropped: how many older ones are not kept. commits, aborts: since reading began.
    awaits: the newest step is judged by what comes next, and that has not come yet.
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
    def steps(self) -> tuple[Step, ...]:
        """Oldest first; unpacked anew each time."""
        return tuple(_kept(step).unpacked() for step in self.past)

    @property
    def is_stepped(self) -> bool:
        """Whether a step has a record before it: only the very first has none."""
        return len(self.past) > 1

    @property
    def newest(self) -> RecordedState:
        """Its newest record."""
        return recorded(self.state, self.offset, self.timestamp_ms)

    @property
    def is_open(self) -> bool:
        """Whether readers of committed data may be held back by it."""
        return self.state.status.is_open

    @property
    def is_from_journal(self) -> bool:
        """False for what the admin calls said: they tell no past, and not when the state was entered."""
        return self.offset >= 0

    @property
    def times_out_at_ms(self) -> int | None:
        """When the coordinator may end it; None when it is decided or not open."""
        if self.state.status is not TransactionStatus.ONGOING:
            return None
        return self.state.start_ms + self.state.timeout_ms

    def shifted(self, shift_ms: int) -> LiveTransaction:
        """The same with every time later by `shift_ms`, those of its steps included."""
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
    """The id after one more of its records."""
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
        # The end of the abort that the step began is not meant.
        if last.kind is not StepKind.ABORTED or not state.status.is_abort:
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
    """What the client speaks is in the records of its own doing: those that add partitions."""
    if state.status is _ONGOING and state.version >= 1:
        return ClientProtocol.TV_2 if state.client_transaction_version >= _KIP_890 else ClientProtocol.TV_0
    if before is None or state.version == 0:
        return ClientProtocol.UNKNOWN
    return before.client_protocol


def _step_kind(before: LiveTransaction | None, state: TransactionState, protocol: ClientProtocol) -> StepKind | None:
    """None for what is routine: the same epoch, or the next one with a TV_2 client's commit."""
    is_init = state.status is _EMPTY
    if before is None:
        return StepKind.INITIALISED if is_init else StepKind.FIRST_SEEN
    was = before.state
    if state.producer_epoch == was.producer_epoch and state.producer_id == was.producer_id:
        return None
    if is_init:
        return StepKind.INITIALISED
    if state.status.is_abort:
        return StepKind.ABORTED
    # Also when the producer id is used up: the commit at the last epoch goes on with the next id at epoch 0.
    is_commit = state.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
    return None if is_commit and protocol is ClientProtocol.TV_2 else StepKind.ADVANCED


class LiveTransactions(msgspec.Struct):
    """All ids, and how far the journal has been read. Its MessagePack is what a restart goes on from.

    commits, aborts: of all ids that were ever read, expired ones too; what is read twice is counted twice.
    """

    reading: Reading = msgspec.field(default_factory=Reading)
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
        """Fold a batch; the ids that it changed, expired ones included.

        on_step: told each id of which a record made a step, or completed it by showing what the step was.
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
                    # One text for all records of an id.
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
        """Drop what this partition told, to read it from its beginning; the ids that are gone by it."""
        gone = [name for name, live in self.ids.items() if live.partition == partition]
        for name in gone:
            del self.ids[name]
        self.reading.forget(partition)
        self.pace.begin_anew()
        return gone
