"""Which partitions each committed transaction had, by its coordinator: from `__transaction_state`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.core.journals import group_records
from app.core.journals.record_batch import RecordBatch, read_records
from app.core.journals.transaction_state import TransactionState, TransactionStatus, decode_key, decode_value
from app.core.journals.wire_message import Undecodable
from tests.fault_suite.decided import UnreadableLogError, offset_after

_BUMPS_AT_COMMIT = 2


class Coordinated(NamedTuple):
    """producer_epoch: under which it was written. sink: its partitions of the sink. has_offsets: whether a partition of
    the groups' journal is among the others. is_complete: every one of its markers is written."""

    producer_epoch: int
    sink: frozenset[int]
    has_offsets: bool
    is_complete: bool = True


class CoordinatorJournal:
    """Fed the batches of one partition of the journal in order; raises UnreadableLogError.

    A coordinator's decision is its last record before the end. An append that was not confirmed in time stays in the
    log. The next one may repeat it or, when the transaction has timed out meanwhile, decide the opposite.
    """

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._next_offset = 0
        self._prepared: dict[str, tuple[int, Coordinated]] = {}
        self._ended: defaultdict[int, list[Coordinated]] = defaultdict(list)

    def batch(self, batch: RecordBatch) -> None:
        self._next_offset = offset_after(batch, self._next_offset)
        records = read_records(batch)
        if isinstance(records, Undecodable):
            raise UnreadableLogError(f"the coordinators' journal at offset {batch.base_offset}: {records.reason}")
        for record in records:
            name, state = decode_key(record.key or b""), decode_value(record.value)
            if isinstance(name, Undecodable) or isinstance(state, Undecodable):
                raise UnreadableLogError(f"offset {record.offset} of the coordinators' journal: {name}, {state}")
            if state is not None:
                self._state(name, state)

    def committed(self) -> Mapping[int, Sequence[Coordinated]]:
        """By producer id, in their order; last the one that is decided and whose markers are not all written."""
        found = {producer_id: list(ended) for producer_id, ended in self._ended.items()}
        for producer_id, prepared in self._prepared.values():
            found.setdefault(producer_id, []).append(prepared._replace(is_complete=False))
        return found

    def _state(self, transactional_id: str, state: TransactionState) -> None:
        prepared = self._prepared.pop(transactional_id, None)
        if state.status is TransactionStatus.PREPARE_COMMIT:
            self._prepared[transactional_id] = state.producer_id, self._coordinated(state)
        elif state.status is TransactionStatus.COMPLETE_COMMIT and prepared is not None:
            producer_id, coordinated = prepared
            self._ended[producer_id].append(coordinated)

    def _coordinated(self, state: TransactionState) -> Coordinated:
        partitions = {one.topic: one.partitions for one in state.partitions or ()}
        # Where the client speaks KIP-890, the commit itself has raised it.
        writer_epoch = state.producer_epoch - (state.client_transaction_version >= _BUMPS_AT_COMMIT)
        return Coordinated(writer_epoch, frozenset(partitions.get(self._sink, ())), group_records.TOPIC in partitions)
