"""The shown state of a cluster: never history as the current state, never a value that changes later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals import group_records
from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.live_groups import GroupState, LiveGroup
from app.core.journals.live_transactions import EpochStep
from app.core.journals.record_batch import MarkerType, RecordBatch, split_batches
from app.core.journals.transaction_state import TransactionStatus, encode_key
from app.core.observing.live_cluster import Folds, LiveCluster
from app.core.observing.snapshot import ReadingPhase, SnapshotSource
from tests.core.journals.batches import batch_of, marker
from tests.support.observing import (
    NOW_MS,
    cluster,
    hear,
    live_transaction,
    offset_batch,
    state_of,
    transaction_batch,
)
from tests.support.recordings import GROUPS, TRANSACTIONS, VERSION_NAMES, recorded_bytes


def states(live: LiveCluster) -> dict[str, str]:
    return {name: one.state.status.word for name, one in live.snapshot(now_ms=NOW_MS).transactions.items()}


def counted(live: LiveCluster) -> tuple[int, int]:
    snapshot = live.snapshot(now_ms=NOW_MS)
    return snapshot.commits, snapshot.aborts


def test_history_is_not_shown_as_the_current_state() -> None:
    """The journal has `a` as open long before its end."""
    live = cluster()
    hear(live, transaction_batch("a", state_of(), at=0), end=2)
    assert states(live) == {}
    hear(live, transaction_batch("a", state_of(TransactionStatus.COMPLETE_COMMIT), at=1))
    assert states(live) == {"a": "CompleteCommit"}


def test_each_partition_is_shown_as_soon_as_it_is_read() -> None:
    live = cluster(partitions=(0, 1))
    hear(live, transaction_batch("a", state_of(), at=0), partition=0)
    hear(live, transaction_batch("b", state_of(), at=0), partition=1, end=2)
    assert states(live) == {"a": "Ongoing"}
    status = live.snapshot(now_ms=NOW_MS).transaction_journal
    assert (status.partitions, status.partitions_caught_up, status.lag_records) == (2, 1, 1)
    assert status.as_of_ms == -1


def test_coordinators_answer_is_shown_until_the_journal_is_read() -> None:
    live = cluster()
    hear(live, transaction_batch("a", state_of(epoch=1), at=0), end=2)
    polled = {name: live_transaction(name, state_of(epoch=5), offset=-1) for name in ("a", "b")}
    live.transactions.polled(polled, now_ms=NOW_MS)
    shown = live.snapshot(now_ms=NOW_MS)
    assert {name: one.state.producer_epoch for name, one in shown.transactions.items()} == {"a": 5, "b": 5}
    assert shown.transaction_journal.source is SnapshotSource.ADMIN_CALLS
    hear(live, transaction_batch("a", state_of(epoch=6), at=1))
    shown = live.snapshot(now_ms=NOW_MS)
    # `b` has expired meanwhile, says the journal by its silence.
    assert {name: one.state.producer_epoch for name, one in shown.transactions.items()} == {"a": 6}
    assert shown.transaction_journal.source is SnapshotSource.JOURNAL


def test_id_that_the_coordinators_no_longer_list_is_removed() -> None:
    live = cluster()
    live.transactions.polled({"a": live_transaction("a", state_of(), offset=-1)}, now_ms=NOW_MS)
    assert states(live) == {"a": "Ongoing"}
    live.transactions.polled({}, now_ms=NOW_MS)
    assert states(live) == {}


def test_coordinator_without_an_answer_is_named() -> None:
    live = cluster()
    live.transactions.polled({}, missing=["broker 2: timed out"], now_ms=NOW_MS)
    assert "broker 2: timed out" in live.snapshot(now_ms=NOW_MS).transaction_journal.problem


def test_journal_without_permission_is_no_longer_shown() -> None:
    live = cluster()
    hear(live, transaction_batch("a", state_of(), at=0))
    hear(live, offset_batch("g", 5, at=0), topic=group_records.TOPIC)
    live.enter(live.transactions.topic, ReadingPhase.REFUSED, problem="not allowed", now_ms=NOW_MS)
    shown = live.snapshot(now_ms=NOW_MS)
    assert not shown.transactions
    assert set(shown.groups) == {"g"}
    assert (shown.transaction_journal.phase, shown.transaction_journal.problem) == (ReadingPhase.REFUSED, "not allowed")
    assert shown.transaction_journal.source is SnapshotSource.NOTHING
    # Allowed again, it goes on where it was.
    live.transactions.progress.expect([0], now_ms=NOW_MS)
    hear(live)
    assert states(live) == {"a": "Ongoing"}


def test_lost_cluster_keeps_its_state_and_age() -> None:
    live = cluster()
    hear(live, transaction_batch("a", state_of(), at=0))
    live.enter(live.transactions.topic, ReadingPhase.LOST, problem="no broker answers", now_ms=NOW_MS + 60_000)
    shown = live.snapshot(now_ms=NOW_MS + 60_000)
    assert set(shown.transactions) == {"a"}
    assert shown.transaction_journal.as_of_ms == NOW_MS
    assert shown.transaction_journal.phase_since_ms == NOW_MS + 60_000


def test_partition_whose_leader_does_not_answer_determines_the_age() -> None:
    live = cluster(partitions=(0, 1))
    for partition in (0, 1):
        hear(live, partition=partition)
    hear(live, partition=0, now_ms=NOW_MS + 60_000)
    status = live.snapshot(now_ms=NOW_MS + 60_000).transaction_journal
    assert status.silent_partitions == 1
    assert "1 of 2 partitions" in status.problem
    assert status.as_of_ms == NOW_MS


def test_log_without_the_position_is_read_again() -> None:
    live = cluster(partitions=(0, 1))
    hear(live, transaction_batch("a", state_of(), at=0), transaction_batch("b", state_of(), at=1))
    hear(live, transaction_batch("other", state_of(), at=0), partition=1)
    live.transactions.restart(0)
    assert set(states(live)) == {"other"}
    hear(live, transaction_batch("b", state_of(epoch=3), at=50))
    assert set(states(live)) == {"b", "other"}
    status = live.snapshot(now_ms=NOW_MS).transaction_journal
    # The time of the batch, which is the brokers' clock.
    assert status.complete_since_ms == 1_000


@pytest.mark.parametrize(
    ("offsets", "complete_since_ms"), [((0, 1, 2), None), ((0, 1, 7), 1_000), ((3, 4), 1_000)], ids=str
)
def test_history_is_complete_since_the_last_gap(offsets: tuple[int, ...], complete_since_ms: int | None) -> None:
    live = cluster()
    hear(live, *(transaction_batch("a", state_of(), at=at) for at in offsets))
    assert live.snapshot(now_ms=NOW_MS).transaction_journal.complete_since_ms == complete_since_ms


def test_record_of_a_newer_version_is_counted_and_skipped() -> None:
    live = cluster()
    future = batch_of([(encode_key("a"), b"\x00\x09whatever")], base_offset=1)
    hear(live, transaction_batch("a", state_of(), at=0), future, transaction_batch("b", state_of(), at=2))
    assert set(states(live)) == {"a", "b"}
    status = live.snapshot(now_ms=NOW_MS).transaction_journal
    ((reason, how_many),) = status.unreadable.items()
    assert ("version 9" in reason, how_many) == (True, 1)
    assert (status.records_read, status.lag_records) == (3, 0)


def test_restart_shows_the_saved_state_once_the_rest_is_read() -> None:
    before = cluster()
    hear(before, transaction_batch("a", state_of(), at=0))
    after = cluster(before.folds)
    assert states(after) == {}
    assert after.transactions.next_offset(0) == 1
    hear(after, transaction_batch("b", state_of(), at=1))
    assert set(states(after)) == {"a", "b"}


def test_ends_are_counted_from_where_the_journal_was_read_to_its_end() -> None:
    """A counter that included history would rise by all of it with each start and each second reading."""
    live = cluster()
    done = state_of(TransactionStatus.COMPLETE_COMMIT)
    hear(live, transaction_batch("a", done, at=0), transaction_batch("b", done, at=1), end=3)
    hear(live, transaction_batch("c", done, at=2))
    assert counted(live) == (0, 0)
    aborted = state_of(TransactionStatus.COMPLETE_ABORT)
    hear(live, transaction_batch("a", done, at=3), transaction_batch("b", aborted, at=4))
    hear(live, transaction_batch("b", aborted, at=4))
    assert counted(live) == (1, 1)
    live.transactions.restart(0)
    hear(live, transaction_batch("a", done, at=3), transaction_batch("b", aborted, at=4))
    assert counted(live) == (1, 1)
    # An id that expires takes nothing with it.
    hear(live, transaction_batch("c", done, at=5), transaction_batch("c", None, at=6))
    assert counted(live) == (2, 1)
    assert counted(cluster(live.folds)) == (0, 0), "a restart begins at zero, as counters may"


def test_snapshot_is_immutable() -> None:
    live = cluster()
    hear(live, offset_batch("g", 5, at=0), topic=group_records.TOPIC)
    hear(live, transaction_batch("a", state_of(), at=0))
    first = live.snapshot(now_ms=NOW_MS)
    hear(live, offset_batch("g", 6, at=1, producer_id=7), topic=group_records.TOPIC)
    hear(live, transaction_batch("b", state_of(), at=1))
    second = live.snapshot(now_ms=NOW_MS)
    assert not first.groups["g"].pending
    assert set(first.transactions) == {"a"}
    assert second.groups["g"].pending
    hear(live, marker(MarkerType.COMMIT, base_offset=2, producer_id=7), topic=group_records.TOPIC)
    assert second.groups["g"].offsets["orders", 0].commit.offset == 5
    assert live.snapshot(now_ms=NOW_MS).groups["g"].offsets["orders", 0].commit.offset == 6


def test_number_identifies_new_values() -> None:
    live = cluster()
    hear(live, transaction_batch("a", state_of(), at=0), transaction_batch("b", state_of(), at=1))
    first = live.snapshot(now_ms=NOW_MS)
    assert live.snapshot(now_ms=NOW_MS + 1).number == first.number
    hear(live, transaction_batch("b", state_of(epoch=1), at=2))
    second = live.snapshot(now_ms=NOW_MS + 2)
    assert second.number == first.number + 1
    assert second.transactions["a"] is first.transactions["a"]
    assert (first.transactions["b"].state.producer_epoch, second.transactions["b"].state.producer_epoch) == (0, 1)


def test_expired_id_is_removed_with_its_number() -> None:
    live = cluster()
    hear(live, transaction_batch("a", state_of(), at=0))
    first = live.snapshot(now_ms=NOW_MS)
    hear(live, transaction_batch("a", None, at=1))
    second = live.snapshot(now_ms=NOW_MS)
    assert second.number > first.number
    assert not second.transactions
    assert second.expired_ids == 1


def test_new_phase_is_a_change() -> None:
    live = cluster()
    first = live.snapshot(now_ms=NOW_MS)
    live.enter(live.groups.topic, ReadingPhase.ABSENT, now_ms=NOW_MS)
    second = live.snapshot(now_ms=NOW_MS)
    assert second.number > first.number
    # That there is nothing is knowledge.
    assert second.group_journal.source is SnapshotSource.JOURNAL


def recorded(version: str, topic: str) -> list[RecordBatch]:
    return [one for one in split_batches(recorded_bytes(version, topic)) if isinstance(one, RecordBatch)]


@pytest.mark.parametrize("version", VERSION_NAMES)
@given(data=st.data())
def test_any_division_of_the_answers_gives_the_same_state(version: str, data: st.DataObject) -> None:
    whole = cluster()
    pieces = cluster()
    for topic in (TRANSACTIONS, GROUPS):
        batches = recorded(version, topic)
        hear(whole, *batches, topic=topic)
        end = batches[-1].last_offset + 1
        cuts = sorted(data.draw(st.sets(st.integers(0, len(batches)), max_size=6)))
        for start, stop in zip([0, *cuts], [*cuts, len(batches)], strict=True):
            hear(pieces, *batches[start:stop], topic=topic, end=end)
            pieces.snapshot(now_ms=NOW_MS)
    expected, found = whole.snapshot(now_ms=NOW_MS), pieces.snapshot(now_ms=NOW_MS)
    assert dict(found.transactions) == dict(expected.transactions)
    assert dict(found.groups) == dict(expected.groups)


@pytest.mark.parametrize("version", VERSION_NAMES)
def test_open_transactions_and_the_order_of_ids_are_those_of_all_at_each_moment(version: str) -> None:
    """They are kept as values change, in place of a search for each view; a restart of the reading drops some."""
    live, seen_open = cluster(), 0
    batches = recorded(version, TRANSACTIONS)
    for number, batch in enumerate(batches):
        hear(live, batch, end=batch.last_offset + 1)
        if number == len(batches) // 2:
            live.transactions.restart(0)
            assert not live.snapshot(now_ms=NOW_MS).transactional_ids
        shown = live.snapshot(now_ms=NOW_MS)
        assert shown.transactional_ids == tuple(sorted(shown.transactions))
        assert dict(shown.open_transactions) == {name: one for name, one in shown.transactions.items() if one.is_open}
        seen_open += len(shown.open_transactions)
    assert seen_open


def test_every_step_is_handed_over_for_any_division_of_the_answers() -> None:
    batches = recorded(VERSION_NAMES[0], TRANSACTIONS)
    live = cluster()
    steps: dict[str, set[EpochStep]] = {}
    for batch in batches:
        hear(live, batch, end=batches[-1].last_offset + 1)
        for stepped in live.take_stepped():
            steps.setdefault(stepped.transactional_id, set()).update(stepped.steps)
    expected = {name: set(one.steps) for name, one in live.folds.transactions.ids.items()}
    # A step is handed over as it is made, and again as it is completed.
    assert {name: found & expected[name] for name, found in steps.items()} == expected
    assert live.take_stepped() == []


def test_routine_hands_nothing_over() -> None:
    live = cluster()
    hear(live, transaction_batch("a", state_of(TransactionStatus.EMPTY), at=0))
    assert [one.transactional_id for one in live.take_stepped()] == ["a"]
    hear(live, transaction_batch("a", state_of(), at=1), now_ms=NOW_MS)
    live.take_stepped()
    for at, status in enumerate((TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT), start=2):
        hear(live, transaction_batch("a", state_of(status), at=at))
    assert live.take_stepped() == []


def test_kept_steps_are_handed_over_again_after_a_restart() -> None:
    """They may not have been processed before the end."""
    before = cluster()
    hear(before, transaction_batch("a", state_of(TransactionStatus.EMPTY), at=0))
    assert [one.transactional_id for one in cluster(before.folds).take_stepped()] == ["a"]


def test_empty_state_shows_nothing() -> None:
    shown = LiveCluster("c", Folds(), is_wanted=lambda _: True, now_ms=NOW_MS).snapshot(now_ms=NOW_MS)
    assert not shown.transactions
    assert shown.transaction_journal.phase is ReadingPhase.CONNECTING
    assert shown.transaction_journal.source is SnapshotSource.NOTHING


def test_answer_without_a_known_partition_is_shown_until_the_journal_is_read() -> None:
    live = cluster()
    told = LiveGroup("g", classic=ClassicGroup("consumer", -1), answered_state=GroupState.EMPTY)
    live.groups.polled({"g": told}, now_ms=NOW_MS)
    assert live.snapshot(now_ms=NOW_MS).groups == {"g": told}
    hear(live, topic=group_records.TOPIC)
    live.enter(group_records.TOPIC, ReadingPhase.LIVE, now_ms=NOW_MS)
    assert not live.snapshot(now_ms=NOW_MS).groups
