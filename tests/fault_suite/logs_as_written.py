"""Logs as brokers write them, made by hand: a source, a sink, the group's journal and the coordinators'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.core.journals import group_records
from app.core.journals.group_records import GroupRecordKey, RecordType, encode_key, encode_value
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.record_batch import Marker, MarkerType, RecordBatch, read_marker, read_records
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.journals.transaction_state import encode_key as encode_transactional_id
from app.core.journals.transaction_state import encode_value as encode_transaction
from tests.core.journals.batches import batch_of, marker
from tests.fault_suite.consumed import GroupJournal
from tests.fault_suite.coordinated import Coordinated, CoordinatorJournal
from tests.fault_suite.decided import DecidedLog, Writer
from tests.fault_suite.judging import Input, Judge, Verdict
from tests.support.aborted_index import AbortedIndex

GROUP, SOURCE, SINK = "group", "orders", "copies"
COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT
ENDS = {
    COMMIT: (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT),
    ABORT: (TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT),
}
SINK_PARTITIONS = 3
FIRST, SECOND = Writer(1, 0), Writer(2, 0)


def offset_of(sequence: int) -> int:
    """Not every offset holds an id: another one may hold a marker."""
    return 2 * sequence + 1


def value_of(identity: Input) -> bytes:
    return f"{identity} padding".encode()


def is_commit(control: RecordBatch) -> bool:
    found = read_marker(control)
    return isinstance(found, Marker) and found.type is COMMIT


class World:
    """A source of two partitions, a sink of three, and the group's journal, as the brokers' logs."""

    def __init__(self, ids: int = 4) -> None:
        self.inputs = [Input(partition, sequence) for partition in range(2) for sequence in range(ids)]
        self.sink: dict[int, list[RecordBatch]] = {partition: [] for partition in range(SINK_PARTITIONS)}
        self.journal: list[RecordBatch] = []
        self.coordinator: list[RecordBatch] = []
        self._named: defaultdict[int, dict[str, set[int]]] = defaultdict(dict)
        self._ends: defaultdict[int, int] = defaultdict(int)
        self.deletions = 0

    def write(self, writer: Writer, *ids: Input, is_transactional: bool = True) -> None:
        """An output for each id, in the partition that its number says."""
        for partition in self.sink:
            values = [value_of(identity) for identity in ids if identity.sequence % 3 == partition]
            if values:
                self.append(partition, writer, values, is_transactional=is_transactional)
                self._name(writer, SINK, partition)

    def append(self, partition: int, writer: Writer, values: list[bytes], *, is_transactional: bool) -> None:
        batch = batch_of(
            [(None, value) for value in values],
            base_offset=self._ends[partition],
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            is_transactional=is_transactional,
        )
        self._ends[partition] = batch.last_offset + 1
        self.sink[partition].append(batch)

    def offsets(self, writer: Writer, next_sequences: Mapping[int, int], *, is_transactional: bool = True) -> None:
        """Where the group would go on, by the number of the id; 0: at the begin of the log."""
        records = [
            (
                encode_key(GroupRecordKey(GROUP, SOURCE, partition, type=RecordType.OFFSET_COMMIT)),
                encode_value(RecordType.OFFSET_COMMIT, OffsetCommit(offset_of(sequence) if sequence else 0), 3),
            )
            for partition, sequence in next_sequences.items()
        ]
        batch = batch_of(
            records,
            base_offset=self._journal_end(),
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            is_transactional=is_transactional,
        )
        self.journal.append(batch)
        self._name(writer, group_records.TOPIC, 0)

    def delete_offsets(self, *partitions: int) -> None:
        """Tombstones, as a deletion of the group writes them."""
        self.deletions += 1
        records = [
            (encode_key(GroupRecordKey(GROUP, SOURCE, partition, type=RecordType.OFFSET_COMMIT)), None)
            for partition in partitions
        ]
        self.journal.append(batch_of(records, base_offset=self._journal_end()))

    def resume(self, next_sequences: Mapping[int, int]) -> None:
        """An operator's command sets the offsets of a group without members."""
        self.offsets(Writer(-1, -1), next_sequences, is_transactional=False)

    def group_journal(self) -> GroupJournal:
        """As the judge has read it."""
        journal = GroupJournal(GROUP, SOURCE, deletions=self.deletions)
        for batch in self.journal:
            journal.batch(batch)
        return journal

    def _name(self, writer: Writer, topic: str, partition: int) -> None:
        self._named[writer.producer_id].setdefault(topic, set()).add(partition)

    def coordinate(self, writer: Writer, *statuses: TransactionStatus) -> None:
        """The coordinator's record of the transaction as it is now."""
        named = tuple(TopicPartitions(topic, tuple(found)) for topic, found in self._named[writer.producer_id].items())
        for status in statuses:
            state = TransactionState(*writer, 10_000, status, named)
            record = encode_transactional_id(f"id-{writer.producer_id}"), encode_transaction(state)
            self.coordinator.append(batch_of([record], base_offset=len(self.coordinator)))

    def end(self, writer: Writer, kind: MarkerType, *, partitions: Iterable[int] | None = None) -> None:
        """Markers in the partitions of the sink, and in the journal."""
        for partition in self.sink if partitions is None else partitions:
            at = self._ends[partition]
            self._ends[partition] += 1
            self.sink[partition].append(marker(kind, base_offset=at, producer_id=writer.producer_id))
        self.journal.append(marker(kind, base_offset=self._journal_end(), producer_id=writer.producer_id))
        self.coordinate(writer, *ENDS[kind])
        self._named.pop(writer.producer_id, None)

    def _journal_end(self) -> int:
        return self.journal[-1].last_offset + 1 if self.journal else 0

    def transaction(
        self, writer: Writer, ids: Iterable[Input], next_sequences: Mapping[int, int], kind: MarkerType = COMMIT
    ) -> None:
        self.write(writer, *ids)
        self.offsets(writer, next_sequences)
        self.end(writer, kind)

    def shown(self, partition: int) -> Iterator[tuple[int, bytes | None]]:
        """The records that a consumer gets under read_committed, from the batches that follow each one."""
        log = self.sink[partition]
        for at, batch in enumerate(log):
            if batch.is_control:
                continue
            end = next((one for one in log[at:] if one.is_control and one.producer_id == batch.producer_id), None)
            if batch.is_transactional and end is None:
                return
            if not batch.is_transactional or (end is not None and is_commit(end)):
                records = read_records(batch)
                assert isinstance(records, list)
                yield from ((record.offset, record.value) for record in records)

    def verdict(
        self,
        shown: Mapping[int, list[tuple[int, bytes | None]]] | None = None,
        *,
        is_through: bool = True,
        is_decided: bool = True,
        replicas: Sequence[AbortedIndex] = (),
    ) -> Verdict:
        """replicas: of each partition of the sink."""
        judge = Judge()
        for identity in self.inputs:
            judge.input(identity, offset_of(identity.sequence), value_of(identity))
        for partition, batches in self.sink.items():
            log = DecidedLog(replicas)
            for batch in batches:
                log.batch(batch)
            for offset, value in self.shown(partition) if shown is None else shown[partition]:
                judge.output(partition, offset, value, log)
        return judge.verdict(
            self.group_journal().consumed, self.coordinated(), is_through=is_through, is_decided=is_decided
        )

    def coordinated(self) -> Mapping[int, Sequence[Coordinated]]:
        coordinator = CoordinatorJournal(SINK)
        for batch in self.coordinator:
            coordinator.batch(batch)
        return coordinator.committed()


def ids(partition: int, begin: int, end: int) -> list[Input]:
    return [Input(partition, sequence) for sequence in range(begin, end)]


def whole() -> World:
    """Two workers, a partition each, two transactions each; one of them was tried in vain before."""
    world = World()
    world.transaction(FIRST, ids(0, 0, 3), {0: 3}, ABORT)
    world.transaction(FIRST, ids(0, 0, 2), {0: 2})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, ids(0, 2, 4), {0: 4})
    return world


def wrong(verdict: Verdict) -> set[str]:
    return {name for name, found in verdict.wrong().items() if found}
