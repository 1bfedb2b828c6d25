"""Offsets that two producers processed: what the order of their commits proves, and what it does not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals import group_records
from app.core.journals.double_processing import MAX_FINDINGS, DoubleProcessing, OverlapGrade, OverlapPattern
from app.core.journals.group_fold import LiveGroups
from app.core.journals.group_records import GroupRecordKey, RecordType
from app.core.journals.group_values.classic import ClassicGroup, ClassicMember
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.record_batch import MarkerType, RecordBatch, UnreadableBatch, split_batches
from tests.core.journals.batches import batch_of, marker
from tests.support.journal_recording import RECORDED

A, B, C = 7, 8, 9
OURS = RecordType.OFFSET_COMMIT
LAST_EPOCH = 32_766
OWN_LOGS = Path(__file__).parents[2] / "fault_suite" / "recorded"


class Journal:
    """A journal that a test writes, and the groups computed from it."""

    def __init__(self) -> None:
        self.live = LiveGroups()
        self._end = 0

    def take(self, batch: RecordBatch) -> None:
        self.live.apply(0, batch)
        self._end = batch.last_offset + 1

    def send(
        self, producer: int, offset: int, *, partition: int = 0, epoch: int = 0, metadata: str = "", topic_id: str = ""
    ) -> None:
        """Send an offset in a transaction that stays open."""
        value = OffsetCommit(offset, metadata=metadata, commit_ms=1_000 + self._end)
        value = msgspec.structs.replace(value, topic_id=topic_id) if topic_id else value
        self.take(
            batch_of(
                [(self._key(partition), group_records.encode_value(OURS, value, 4 if topic_id else 3))],
                base_offset=self._end,
                producer_id=producer,
                producer_epoch=epoch,
                is_transactional=True,
            )
        )

    def end(self, producer: int, kind: MarkerType = MarkerType.COMMIT) -> None:
        self.take(marker(kind, base_offset=self._end, producer_id=producer))

    def commit(self, producer: int, *offsets: int, epoch: int = 0, metadata: str = "", topic_id: str = "") -> Journal:
        for offset in offsets:
            self.send(producer, offset, epoch=epoch, metadata=metadata, topic_id=topic_id)
            self.end(producer)
        return self

    def gap(self) -> Journal:
        """Compaction removed the next record before it was read."""
        self._end += 1
        return self

    def plain(self, offset: int | None) -> Journal:
        """Commit an offset without a producer, or delete it."""
        value = None if offset is None else group_records.encode_value(OURS, OffsetCommit(offset), 3)
        self.take(batch_of([(self._key(0), value)], base_offset=self._end))
        return self

    def generation(self, number: int, *, members: int = 1) -> Journal:
        """End a rebalance."""
        value = ClassicGroup(
            protocol_type="consumer",
            generation=number,
            protocol="range",
            leader="m0",
            members=tuple(
                ClassicMember(member_id=f"m{one}", client_id="c", client_host="/h") for one in range(members)
            ),
        )
        key = group_records.encode_key(GroupRecordKey("g", type=RecordType.CLASSIC_GROUP))
        record = group_records.encode_value(RecordType.CLASSIC_GROUP, value, 3)
        self.take(batch_of([(key, record)], base_offset=self._end))
        return self

    @property
    def findings(self) -> list[DoubleProcessing]:
        return list(self.live.groups["g"].watch.findings)

    def found(self) -> list[tuple[OverlapPattern, OverlapGrade, int, int]]:
        return [(one.pattern, one.grade, one.from_offset, one.to_offset) for one in self.findings]

    def restarted(self) -> Journal:
        """As after a restart of the server, which keeps the state in a file."""
        self.live = msgspec.msgpack.decode(msgspec.msgpack.encode(self.live), type=LiveGroups)
        return self

    @staticmethod
    def _key(partition: int) -> bytes:
        return group_records.encode_key(GroupRecordKey("g", "orders", partition, type=OURS))


@pytest.fixture
def journal() -> Journal:
    return Journal().generation(1)


def test_producer_that_goes_back_and_continues_proves_that_offsets_were_processed_twice(journal: Journal) -> None:
    journal.commit(A, 100, 110).commit(B, 105)
    assert journal.found() == [(OverlapPattern.REWOUND, OverlapGrade.LIKELY, 105, 110)]
    journal.restarted().commit(B, 107)
    assert journal.found() == [(OverlapPattern.REWOUND, OverlapGrade.PROVED, 105, 107)]
    journal.commit(B, 120, 130)
    (found,) = journal.findings
    assert (found.grade, found.from_offset, found.to_offset) == (OverlapGrade.PROVED, 105, 110)
    assert (found.first.producer_id, found.second.producer_id, found.newest.offset) == (A, B, 120)
    assert journal.live.groups["g"].watch.counts[OverlapGrade.LIKELY] == 0


def test_range_of_the_first_producer_must_be_known_for_a_proof(journal: Journal) -> None:
    """Its first commit may be one without records: the begin of its range is not in the journal."""
    journal.commit(A, 110).commit(B, 105, 120)
    assert journal.found() == [(OverlapPattern.REWOUND, OverlapGrade.LIKELY, 105, 110)]


def test_commit_of_a_third_producer_proves_nothing_by_itself(journal: Journal) -> None:
    """C may have begun at any offset that A committed on its way to 110."""
    journal.commit(A, 100, 110).commit(B, 105).generation(2).commit(C, 109)
    assert [one.grade for one in journal.findings] == [OverlapGrade.LIKELY]
    journal.commit(C, 111)
    assert [one.grade for one in journal.findings] == [OverlapGrade.LIKELY], "109 alone may be a marker"


@pytest.mark.parametrize("offset", [510, 509])
def test_zombie_that_commits_the_end_of_the_new_owner_is_likely(journal: Journal, offset: int) -> None:
    """A is frozen with the records from 10 on; B takes over and commits; A wakes. 509 or 510: a marker is between."""
    journal.commit(A, 10).generation(2).commit(B, 510).commit(A, offset)
    assert journal.found() == [(OverlapPattern.SAME_END, OverlapGrade.LIKELY, 10, 510)]


def test_new_owner_may_commit_the_same_offset_without_records(journal: Journal) -> None:
    journal.commit(A, 10, 20).generation(2).commit(B, 20).generation(3).commit(A, 20, 30)
    assert journal.found() == []


def test_same_producer_may_commit_the_same_offset_again(journal: Journal) -> None:
    assert journal.commit(A, 10, 20, 20, 20, 21).found() == []


def test_next_producer_id_of_an_id_is_the_same_producer(journal: Journal) -> None:
    """After the last epoch, the coordinator gives the id another producer id."""
    assert journal.commit(A, 10, 20, epoch=LAST_EPOCH).commit(B, 20, 30).found() == []
    journal = Journal().generation(1).commit(A, 10, 20, epoch=LAST_EPOCH - 100).commit(B, 20)
    assert [one.grade for one in journal.findings] == [OverlapGrade.LIKELY]


def test_same_end_without_members_is_possible_only() -> None:
    assert Journal().commit(A, 10, 20).commit(B, 20).found() == [
        (OverlapPattern.SAME_END, OverlapGrade.POSSIBLE, 10, 20)
    ]


def test_producers_in_turn_are_no_problem(journal: Journal) -> None:
    """One reader with a pool of producers that commits all positions, also those that did not move."""
    for offset in range(10, 100, 10):
        for producer in (A, B):
            journal.send(producer, offset + producer, partition=0)
            journal.send(producer, 5, partition=1)
            journal.end(producer)
    assert {one.grade for one in journal.findings} == {OverlapGrade.POSSIBLE}
    assert [one.pattern for one in journal.findings if one.partition == 0] == [OverlapPattern.INTERLEAVED]


def test_takeover_by_rebalance_is_no_finding(journal: Journal) -> None:
    assert journal.commit(A, 10, 20).generation(2).commit(B, 30, 40).generation(3).commit(A, 50).found() == []


def test_aborted_offsets_are_no_evidence(journal: Journal) -> None:
    journal.commit(A, 100, 110)
    journal.send(B, 105)
    journal.end(B, MarkerType.ABORT)
    assert journal.commit(A, 120).found() == []


def test_reset_is_intended_and_later_commits_are_compared_with_it(journal: Journal) -> None:
    journal.commit(A, 100, 110).plain(100).commit(B, 105, 110, 120)
    assert journal.found() == [(OverlapPattern.RESET, OverlapGrade.INTENDED, 100, 110)]
    assert journal.findings[0].second.producer_id == -1


def test_reset_while_a_transaction_is_open_wins(journal: Journal) -> None:
    """In the coordinator the later record wins, in any order of the markers."""
    journal.commit(A, 100)
    journal.send(A, 110)
    journal.plain(50)
    journal.end(A)
    assert [one.grade for one in journal.commit(B, 60, 70).findings] == [OverlapGrade.INTENDED]


def test_deleted_or_expired_offset_is_no_evidence(journal: Journal) -> None:
    assert journal.commit(A, 100, 110).plain(None).commit(B, 5, 10).found() == []


def test_commits_before_a_gap_of_the_reading_are_no_evidence(journal: Journal) -> None:
    """A server was away, and compaction removed a reset, or a generation."""
    assert journal.commit(A, 100, 110).restarted().gap().commit(B, 105, 120).found() == []
    assert journal.commit(C, 121).gap().commit(B, 121).gap().plain(5).found() == []
    journal.commit(B, 100, 110).commit(C, 105)
    assert [one.grade for one in journal.findings] == [OverlapGrade.LIKELY], "after the gap it is judged again"


def test_offsets_of_another_topic_with_this_name_are_not_compared(journal: Journal) -> None:
    first, second = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
    assert journal.commit(A, 100, 110, topic_id=first).commit(A, 5, 10, topic_id=second).found() == []


def test_marker_of_a_query_is_no_position(journal: Journal) -> None:
    def metadata(batch: int) -> str:
        return f"fenceline/1 query {batch} 1 a b"

    for batch in (5, 6, 3):
        journal.commit(A if batch != 3 else B, batch + 1, metadata=metadata(batch))
    assert journal.found() == []


def test_transactions_that_were_open_at_once_are_compared_in_the_order_of_their_records(journal: Journal) -> None:
    """A sends 200, B sends 120 and commits first. The offset goes back to 120 when A's marker comes."""
    journal.commit(A, 100)
    journal.send(A, 200)
    journal.commit(B, 120)
    journal.end(A)
    (found,) = journal.findings
    assert (found.pattern, found.from_offset, found.to_offset) == (OverlapPattern.REWOUND, 120, 200)
    assert (found.first.producer_id, found.second.producer_id) == (A, B)
    journal = Journal().generation(1).commit(A, 100)
    journal.send(A, 110)
    journal.commit(B, 120)
    journal.end(A)
    assert journal.found() == [], "one reader may use the next producer while markers of the last one are on their way"


def test_application_that_sets_its_offset_back_is_found_too(journal: Journal) -> None:
    journal.commit(A, 100, 150, 120, 160)
    assert journal.found() == [(OverlapPattern.REWOUND, OverlapGrade.PROVED, 120, 150)]


def test_findings_are_bounded_and_problems_are_kept_longest(journal: Journal) -> None:
    journal.commit(A, 100, 110).commit(B, 105)
    for _ in range(MAX_FINDINGS + 5):
        journal.commit(A, 1_000, 2_000).plain(500)
    watch = journal.live.groups["g"].watch
    assert len(watch.findings) == MAX_FINDINGS
    assert watch.findings[0].grade is OverlapGrade.LIKELY
    assert watch.counts[OverlapGrade.INTENDED] == MAX_FINDINGS + 5
    assert len(watch.histories) <= 1
    assert not journal.live.groups["g"].copy().watch.histories


@pytest.mark.parametrize(
    "log", sorted([*RECORDED.rglob("__consumer_offsets*.log"), *OWN_LOGS.glob("__consumer_offsets*.log")]), ids=str
)
def test_recorded_journals_have_no_finding(log: Path) -> None:
    """Pipelines, Kafka Streams with kills, freezes and copied folders, resets, and a fault run."""
    live, commits = LiveGroups(), 0
    for batch in split_batches(log.read_bytes()):
        assert isinstance(batch, RecordBatch | UnreadableBatch)
        for name in live.apply(0, batch):
            group = live.groups.get(name)
            if group is not None:
                commits += len(group.watch.histories)
                assert group.watch.findings == (), name
    assert commits, "a journal without transactional offsets shows nothing"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(0, 30)),
            st.tuples(st.just("recommit"), st.just(0)),
            st.tuples(st.just("abort"), st.integers(0, 30)),
            st.tuples(st.just("rebalance"), st.just(0)),
            st.tuples(st.just("reset"), st.integers(0, 200)),
        ),
        max_size=60,
    )
)
def test_correct_group_has_no_problem_in_any_order(steps: list[tuple[str, int]]) -> None:
    """One owner at a time that begins at the committed offset, with aborts, rebalances and resets."""
    journal = Journal().generation(1)
    owner, generation, committed = 0, 1, 0
    for step, value in steps:
        match step:
            case "rebalance":
                owner, generation = owner + 1, generation + 1
                journal.generation(generation, members=2)
            case "reset":
                owner, generation, committed = owner + 1, generation + 1, value
                journal.plain(value).generation(generation)
            case "abort":
                journal.send(owner % 3, committed + value)
                journal.end(owner % 3, MarkerType.ABORT)
            case _:
                committed += value
                journal.commit(owner % 3, committed)
    assert not [one for one in journal.findings if one.grade is not OverlapGrade.INTENDED]
