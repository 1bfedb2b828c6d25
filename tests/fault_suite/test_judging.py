"""The verdict on logs as brokers write them: exact where all is well, and each kind of wrong seen for what it is."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.journals import group_records
from app.domain.journals.group_records import GroupRecordKey, RecordType, encode_key, encode_value
from app.domain.journals.group_values.offsets import OffsetCommit
from app.domain.journals.record_batch import Marker, MarkerType, RecordBatch, read_marker, read_records
from app.domain.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.domain.journals.transaction_state import encode_key as encode_transactional_id
from app.domain.journals.transaction_state import encode_value as encode_transaction
from tests.domain.journals.batches import batch_of, marker
from tests.fault_suite.consumed import GroupJournal
from tests.fault_suite.coordinated import Coordinated, CoordinatorJournal
from tests.fault_suite.decided import DecidedLog, UnreadableLogError, Writer
from tests.fault_suite.judging import Input, Judge, Verdict, identity_of

GROUP, SOURCE, SINK = "group", "orders", "copies"
COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT
ENDS = {
    COMMIT: (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT),
    ABORT: (TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT),
}
SINK_PARTITIONS = 3
ROOT = Path(__file__).parents[2]
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
        """Where the group would go on, by the number of the id."""
        records = [
            (
                encode_key(GroupRecordKey(GROUP, SOURCE, partition, type=RecordType.OFFSET_COMMIT)),
                encode_value(RecordType.OFFSET_COMMIT, OffsetCommit(offset_of(sequence)), 3),
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

    def _name(self, writer: Writer, topic: str, partition: int) -> None:
        self._named[writer.producer_id].setdefault(topic, set()).add(partition)

    def coordinate(self, writer: Writer, *statuses: TransactionStatus) -> None:
        """What the coordinator writes of the transaction as it is now."""
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
        """What a consumer is given under read_committed: told by what comes after each batch."""
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
    ) -> Verdict:
        judge, journal = Judge(), GroupJournal(GROUP, SOURCE)
        for identity in self.inputs:
            judge.input(identity, offset_of(identity.sequence), value_of(identity))
        for partition, batches in self.sink.items():
            log = DecidedLog()
            for batch in batches:
                log.batch(batch)
            for offset, value in self.shown(partition) if shown is None else shown[partition]:
                judge.output(partition, offset, value, log)
        for batch in self.journal:
            journal.batch(batch)
        return judge.verdict(journal.consumed, self.coordinated(), is_through=is_through, is_decided=is_decided)

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


def test_well_nothing_is_wrong() -> None:
    verdict = whole().verdict()
    assert verdict.is_exact, str(verdict)
    assert (verdict.expected, verdict.found, verdict.transactions) == (8, 8, 3)


Round = tuple[int, int, bool, bool]
ROUND = st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.booleans())


@given(rounds=st.lists(ROUND, max_size=12), bumps=st.booleans())
def test_whatever_workers_commit_and_abort_is_exact(rounds: list[Round], bumps: bool) -> None:
    """Two workers write at once, a partition each, which they swap now and then. bumps: epochs as since KIP-890."""
    world, reached = World(ids=20), [0, 0]
    for number, (one, other, commits, swap) in enumerate([*rounds, (40, 40, True, False)]):
        epoch = number if bumps else 0
        first, second = (Writer(1, epoch), Writer(2, epoch)) if swap else (Writer(2, epoch), Writer(1, epoch))
        ends = [min(20, reached[0] + one), min(20, reached[1] + other)]
        world.write(first, *ids(0, reached[0], ends[0]))
        world.write(second, *ids(1, reached[1], ends[1]))
        world.offsets(second, {1: ends[1]})
        world.offsets(first, {0: ends[0]})
        world.end(first, COMMIT if commits else ABORT)
        world.end(second, COMMIT)
        reached = [ends[0] if commits else reached[0], ends[1]]
    verdict = world.verdict()
    assert verdict.is_exact, str(verdict)
    assert verdict.found == 40


def test_offsets_that_came_without_an_output_are_a_loss() -> None:
    world = World()
    world.transaction(FIRST, [*ids(0, 0, 1), *ids(0, 2, 4)], {0: 4})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    verdict = world.verdict()
    assert verdict.lost is not None
    assert verdict.lost.examples == ("0:00000001, offset 3 of the source",)
    # From outside it cannot be told from a transaction of which one output was not shown.
    assert wrong(verdict) == {"lost", "torn"}


def test_what_nobody_has_consumed_is_lost_and_not_torn() -> None:
    world = World()
    world.transaction(FIRST, ids(0, 0, 3), {0: 3})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"lost"}
    assert verdict.lost is not None
    assert verdict.lost.examples == ("0:00000003, offset 7 of the source",)


def test_a_zombie_that_commits_the_same_once_more_duplicates() -> None:
    world = whole()
    world.transaction(Writer(9, 0), ids(0, 2, 4), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"duplicated"}
    again = [example.partition(" again at ") for example in verdict.duplicated.examples]
    # The first partition that is read is that of every third id: it is told where the second one lies.
    assert [(identity, place.rpartition(" of ")[2]) for identity, _, place in again] == [
        ("0:00000003", "partition 0"),
        ("0:00000002", "partition 2"),
    ]


def test_an_id_that_comes_three_times_is_one_duplicate() -> None:
    world = whole()
    for pid in (8, 9):
        world.write(Writer(pid, 0), Input(0, 3))
        world.end(Writer(pid, 0), COMMIT)
    assert world.verdict().duplicated.count == 1


def test_an_output_outside_of_a_transaction_is_shown_though_nobody_committed_it() -> None:
    world = whole()
    world.write(FIRST, Input(1, 0), is_transactional=False)
    assert wrong(world.verdict()) == {"duplicated", "uncommitted"}


def test_a_reader_that_is_shown_what_was_aborted_is_told_of_it() -> None:
    world = whole()
    shown = {partition: list(world.shown(partition)) for partition in world.sink}
    aborted = world.sink[0][0]
    shown[0].insert(0, (aborted.base_offset, b"0:00000000 padding"))
    assert wrong(world.verdict(shown)) == {"duplicated", "uncommitted", "torn"}


def test_one_partition_committed_and_the_other_aborted_is_torn() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.offsets(FIRST, {0: 4})
    world.end(FIRST, COMMIT, partitions=[0, 1])
    world.end(FIRST, ABORT, partitions=[2])
    verdict = world.verdict()
    assert wrong(verdict) == {"lost", "torn"}
    assert verdict.torn.count == 1
    assert "offsets without all of their outputs" in verdict.torn.examples[0]


def test_outputs_that_came_without_their_offsets_are_torn_though_every_id_is_there_once() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.end(FIRST, COMMIT)
    assert wrong(world.verdict()) == {"torn"}


def test_outputs_of_one_producer_and_offsets_of_another_are_torn() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.end(FIRST, COMMIT)
    world.offsets(SECOND, {0: 4})
    world.end(SECOND, COMMIT)
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert "outputs of another producer than the offsets" in verdict.torn.examples[0]


def test_an_older_epoch_of_the_same_producer_is_another_writer() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(Writer(1, 0), *ids(0, 0, 4))
    world.offsets(Writer(1, 1), {0: 4})
    world.end(Writer(1, 1), COMMIT)
    assert wrong(world.verdict()) == {"torn"}


def test_outputs_that_were_visible_a_transaction_before_their_offsets_are_torn() -> None:
    """The same producer commits outputs, then more of them with the offsets of both."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 1))
    world.end(FIRST, COMMIT)
    world.transaction(FIRST, ids(0, 1, 4), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert "two transactions of one partition" in verdict.torn.examples[0]


def test_outputs_of_an_earlier_transaction_are_torn_also_in_a_partition_that_the_next_one_does_not_have() -> None:
    """The outputs of both lie in partitions of their own, and the offsets came with the second."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(SECOND, [], {0: 0})
    world.transaction(FIRST, [], {0: 0})
    world.write(FIRST, Input(0, 0), Input(0, 3))
    world.end(FIRST, COMMIT)
    world.transaction(FIRST, ids(0, 1, 3), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    moved, without = verdict.torn.examples
    assert moved.startswith("outputs in partitions that are not those of its transaction")
    assert without.startswith("committed without offsets: transaction 1 of producer 1")


def test_outputs_that_were_committed_when_their_offsets_were_refused_are_torn() -> None:
    """The group's journal is named, but holds nothing of the first transaction: the second one brings its offsets."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, [Input(0, 0), Input(0, 3)], {0: 0})
    world.journal = world.journal[:-2]
    world.transaction(FIRST, ids(0, 1, 3), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert verdict.torn.examples[1:] == ("1 commits of offsets in 2 transactions of producer 1 that have them",)


def test_what_is_held_back_behind_an_open_transaction_is_neither_lost_nor_torn() -> None:
    world = World()
    world.write(Writer(9, 0), Input(0, 0))
    world.transaction(FIRST, ids(0, 0, 3), {0: 3})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    assert wrong(world.verdict()) == {"lost", "torn"}
    held_back = world.verdict(is_decided=False)
    assert (held_back.lost, wrong(held_back)) == (None, set())
    assert not held_back.is_exact


def test_of_what_has_not_come_out_yet_only_what_is_missing_is_not_judged() -> None:
    world = whole()
    world.inputs.append(Input(1, 4))
    world.transaction(Writer(9, 0), ids(0, 2, 4), {0: 4})
    verdict = world.verdict(is_through=False)
    assert (verdict.lost, wrong(verdict)) == (None, {"duplicated"})


def test_what_a_coordinator_has_not_completed_may_lack_its_markers() -> None:
    world = whole()
    world.write(FIRST, *ids(0, 0, 1))
    world.offsets(FIRST, {0: 4})
    world.coordinate(FIRST, TransactionStatus.PREPARE_COMMIT)
    assert world.verdict().is_exact
    assert [one.is_complete for one in world.coordinated()[FIRST.producer_id]] == [True, True, False]


def test_a_coordinators_last_word_before_the_end_is_what_it_has_decided() -> None:
    """An append that was not confirmed in time stays in the log beside the one that was."""
    world = whole()
    known = world.coordinated()
    world.coordinate(FIRST, TransactionStatus.PREPARE_COMMIT, *ENDS[ABORT])
    assert world.coordinated() == known
    world.coordinate(FIRST, TransactionStatus.PREPARE_COMMIT, *ENDS[COMMIT], TransactionStatus.COMPLETE_COMMIT)
    assert len(world.coordinated()[FIRST.producer_id]) == len(known[FIRST.producer_id]) + 1


def test_offsets_of_two_commits_over_one_transaction_of_the_sink_are_torn() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.offsets(FIRST, {0: 2})
    world.end(FIRST, COMMIT)
    world.offsets(FIRST, {0: 4})
    world.end(FIRST, COMMIT)
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert "those of another commit" in verdict.torn.examples[0]


def test_ids_of_a_source_partition_that_changed_places_are_out_of_order() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, [Input(0, 3), Input(0, 0), Input(0, 1), Input(0, 2)], {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"out_of_order"}
    assert verdict.out_of_order.count == 1
    assert verdict.out_of_order.examples[0].startswith("0:00000000 after 0:00000003")


@pytest.mark.parametrize("value", [b"2:00000000 x", b"0:00000004 x", b"hello", b"", b":1 x", b"1: x"])
def test_what_is_no_id_of_the_source_is_unexpected(value: bytes) -> None:
    world = whole()
    world.append(0, FIRST, [value], is_transactional=True)
    world.end(FIRST, COMMIT)
    assert wrong(world.verdict()) == {"unexpected"}


def test_an_output_with_the_id_of_its_input_and_other_bytes_is_altered() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 3))
    world.append(0, FIRST, [b"0:00000003 of another record"], is_transactional=True)
    world.offsets(FIRST, {0: 4})
    world.end(FIRST, COMMIT)
    verdict = world.verdict()
    assert wrong(verdict) == {"altered"}
    assert verdict.altered.examples[0].startswith("0:00000003 at offset")


def test_the_verdict_is_made_without_a_module_of_the_loop() -> None:
    """What would judge itself would be believed in its mistakes."""
    asked = "import sys, tests.fault_suite.reading; print([name for name in sys.modules if name.startswith('workers')])"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"


def test_a_commit_of_an_older_offset_is_told() -> None:
    world = whole()
    world.offsets(SECOND, {0: 1})
    world.end(SECOND, COMMIT)
    world.offsets(SECOND, {0: 4})
    world.end(SECOND, COMMIT)
    verdict = world.verdict()
    # Once: to come forward again consumes nothing that was not consumed before.
    assert (wrong(verdict), verdict.went_back.count) == ({"went_back"}, 1)


def test_commits_of_starts_and_of_positions_behind_markers_consume_nothing() -> None:
    world = World()
    world.offsets(FIRST, {0: 0, 1: 0})
    world.end(FIRST, COMMIT)
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, ids(0, 0, 4), {0: 4})
    world.offsets(FIRST, {0: 4, 1: 4})
    world.end(FIRST, COMMIT)
    assert world.verdict().is_exact


def test_a_source_with_an_id_missing_or_twice_is_refused() -> None:
    judge = Judge()
    judge.input(Input(0, 0), 0, b"")
    with pytest.raises(ValueError, match="where 1 should follow"):
        judge.input(Input(0, 2), 1, b"")
    with pytest.raises(ValueError, match="where 1 should follow"):
        judge.input(Input(0, 0), 1, b"")


def test_the_journal_tells_what_is_open_aborted_or_outside_of_a_transaction() -> None:
    world = World()
    world.transaction(FIRST, [], {0: 1}, ABORT)
    world.offsets(FIRST, {0: 1})
    world.offsets(Writer(-1, -1), {1: 2}, is_transactional=False)
    journal, other = GroupJournal(GROUP, SOURCE), GroupJournal("another", SOURCE)
    for batch in world.journal:
        journal.batch(batch)
        other.batch(batch)
    assert (journal.open, journal.aborted, journal.consumed) == ([FIRST], 1, [])
    assert len(journal.untransacted) == 1
    assert (other.open, other.aborted, other.consumed, other.untransacted) == ([], 0, [], [])


def test_a_log_tells_what_no_marker_has_ended() -> None:
    world = whole()
    world.write(SECOND, Input(0, 0))
    log = DecidedLog()
    for batch in world.sink[0]:
        log.batch(batch)
    assert log.open == [SECOND]
    assert log.committed_at(world.sink[0][-1].base_offset) is None
    assert log.committed_at(10_000) is None


def test_a_log_of_which_something_is_gone_is_refused() -> None:
    """Nothing that is not there can be judged: a compacted journal must not look like a short one."""
    world = whole()
    with pytest.raises(UnreadableLogError, match="records are gone"):
        DecidedLog().batch(world.sink[0][1])
    journal = GroupJournal(GROUP, SOURCE)
    journal.batch(world.journal[0])
    with pytest.raises(UnreadableLogError, match="records are gone"):
        journal.batch(world.journal[2])


def test_ten_million_ids_fit_into_a_few_hundred_megabytes() -> None:
    count = 100_000
    tracemalloc.start()
    try:
        judge = Judge()
        before, _ = tracemalloc.get_traced_memory()
        for sequence in range(count):
            judge.input(Input(0, sequence), sequence, b"")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / count < 15


@given(st.integers(0, 99), st.integers(0, 10**8 - 1), st.binary())
def test_ids_are_read_back(partition: int, sequence: int, rest: bytes) -> None:
    identity = Input(partition, sequence)
    assert identity_of(str(identity).encode() + b" " + rest) == identity
