"""One cluster's reader, with scripted answers that a test broker cannot give in time."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.live_groups import GroupState, LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.record_batch import RecordBatch
from app.core.observing.journals import AdminAnswers, TopicLook
from app.core.observing.snapshot import ReadingPhase, SnapshotSource
from app.kit.errors import UnavailableError
from tests.support.observing import live_transaction, state_of, transaction_batch
from tests.support.scripted_brokers import GROUPS, TRANSACTIONS, Script, Store
from tests.support.waiting import wait_for
from tests.support.watched import DEADLINE_S, Watched, cluster_at

CLUSTER = cluster_at("127.0.0.1:1", "kafka-1")


def watched_of(script: Script, store: Store, *, save_every_s: float = 60.0) -> Watched:
    return Watched(CLUSTER, journals=script, store=store, save_every_s=save_every_s)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def watched(script: Script, store: Store) -> Generator[Watched]:
    made = watched_of(script, store)
    made.observer.start()
    yield made
    assert made.observer.stop()


def open_id(name: str = "a", *, at: int = 0, epoch: int = 0) -> RecordBatch:
    return transaction_batch(name, state_of(epoch=epoch), at=at)


def polled(name: str = "a", *, epoch: int = 5) -> dict[str, LiveTransaction]:
    return {name: live_transaction(name, state_of(epoch=epoch), offset=-1)}


def test_written_records_are_published(watched: Watched, script: Script) -> None:
    watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE, "the journal is followed")
    script.logs[TRANSACTIONS].append(open_id())
    assert watched.until(lambda seen: seen.transactions, "the id").transactions["a"].is_open


def test_journal_that_comes_later_is_found(watched: Watched, script: Script) -> None:
    watched.until(lambda seen: seen.group_journal.phase is ReadingPhase.ABSENT, "no groups yet")
    script.logs[GROUPS] = []
    script.looks[GROUPS] = TopicLook(frozenset({0}))
    watched.until(lambda seen: seen.group_journal.phase is ReadingPhase.LIVE, "the groups' journal")


def test_unreachable_cluster_is_reported_and_read_on_afterwards(watched: Watched, script: Script) -> None:
    script.logs[TRANSACTIONS].append(open_id())
    watched.until(lambda seen: seen.transactions, "the id")
    script.failure = UnavailableError("no broker answers")
    lost = watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LOST, "the loss")
    assert lost.transaction_journal.problem == "no broker answers"
    assert set(lost.transactions) == {"a"}
    script.logs[TRANSACTIONS].append(open_id("b", at=1))
    script.failure = None
    found = watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE, "the cluster is back")
    assert set(found.transactions) == {"a", "b"}
    assert script.followed.count((TRANSACTIONS, 0)) == 1
    assert (TRANSACTIONS, 1) in script.followed


def test_bug_is_reported_and_reading_continues(watched: Watched, script: Script) -> None:
    script.failure = ZeroDivisionError("by chance")
    lost = watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LOST, "the failure")
    assert lost.transaction_journal.problem == "the observer failed: ZeroDivisionError: by chance"
    script.failure = None
    watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE, "it goes on")


def test_another_cluster_at_the_same_address_is_not_read(watched: Watched, script: Script) -> None:
    script.logs[TRANSACTIONS].append(open_id())
    watched.until(lambda seen: seen.transactions, "the id")
    script.failure = UnavailableError("away")
    watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LOST, "the loss")
    script.kafka_cluster_id = "kafka-2"
    script.logs[TRANSACTIONS] = [open_id("foreign", at=7)]
    script.failure = None
    said = watched.until(lambda seen: "kafka-2" in seen.transaction_journal.problem, "the other cluster")
    assert set(said.transactions) == {"a"}


def test_refused_journal_is_replaced_by_the_coordinators_and_named(watched: Watched, script: Script) -> None:
    script.logs[TRANSACTIONS].append(open_id())
    watched.until(lambda seen: seen.transactions, "the id")
    script.coordinators = AdminAnswers(polled(epoch=5), ())
    script.refused[TRANSACTIONS] = "Not authorized"
    found = watched.until(
        lambda seen: seen.transactions and seen.transactions["a"].state.producer_epoch == 5, "the coordinators' word"
    )
    assert found.transaction_journal.source is SnapshotSource.ADMIN_CALLS
    assert found.transaction_journal.phase is ReadingPhase.REFUSED
    assert "Not authorized" in found.transaction_journal.problem
    assert f"permission READ on {TRANSACTIONS}" in found.transaction_journal.problem
    assert found.transaction_journal.as_of_ms > 0
    # Open or not: nobody else would tell of the others.
    assert script.asked[-1] is False


def test_refused_groups_come_from_the_coordinators(watched: Watched, script: Script) -> None:
    told = LiveGroup("g", classic=ClassicGroup("consumer", -1), answered_state=GroupState.PREPARING_REBALANCE)
    script.group_coordinators = AdminAnswers({"g": told}, ("the offsets of g: not allowed",))
    script.looks[GROUPS] = TopicLook(frozenset(), "its description is not allowed")
    found = watched.until(lambda seen: seen.groups, "the coordinators' word")
    assert found.group_journal.source is SnapshotSource.ADMIN_CALLS
    assert found.group_journal.phase is ReadingPhase.REFUSED
    assert found.groups["g"].state is GroupState.PREPARING_REBALANCE
    for said in (f"permission READ on {GROUPS}", "no generation of a classic group", "the offsets of g: not allowed"):
        assert said in found.group_journal.problem


def test_coordinators_answers_are_shown_until_the_journal_is_read(store: Store, script: Script) -> None:
    # Partition 1 never says anything.
    script.coordinators = AdminAnswers({"a": live_transaction("a", state_of(), partition=1, offset=-1)}, ())
    script.looks[TRANSACTIONS] = TopicLook(frozenset({0, 1}))
    watched = watched_of(script, store)
    watched.observer.start()
    try:
        found = watched.until(lambda seen: seen.transactions, "the coordinators' word")
        assert found.transaction_journal.source is SnapshotSource.ADMIN_CALLS
        assert script.asked[0] is True
    finally:
        assert watched.observer.stop()


def test_coordinator_that_does_not_answer_delays_nothing(store: Store, script: Script) -> None:
    script.coordinators_answer.clear()
    script.logs[TRANSACTIONS].append(open_id())
    watched = watched_of(script, store)
    watched.observer.start()
    try:
        watched.until(lambda seen: seen.transactions, "the id by the journal")
        assert script.asked
    finally:
        assert watched.observer.stop()
        script.coordinators_answer.set()


def test_log_that_starts_after_the_position_is_read_from_its_start(watched: Watched, script: Script) -> None:
    script.logs[TRANSACTIONS].append(open_id())
    watched.until(lambda seen: seen.transactions, "the id")
    script.gone_below = 9
    script.logs[TRANSACTIONS] = [open_id("b", at=9)]
    found = watched.until(lambda seen: set(seen.transactions) == {"b"}, "what the log has now")
    assert found.transaction_journal.complete_since_ms is not None


def test_lost_records_hide_the_partition_until_it_is_read_again(watched: Watched, script: Script) -> None:
    """Its age is not invented either: its coordinator is asked meanwhile."""
    script.logs[TRANSACTIONS].append(open_id())
    watched.until(lambda seen: seen.transactions, "the id")
    script.coordinators = AdminAnswers(polled("b"), ())
    script.silent = frozenset({TRANSACTIONS})
    script.gone_below = 9
    found = watched.until(lambda seen: set(seen.transactions) == {"b"}, "what the coordinator says instead")
    assert found.transaction_journal.phase is ReadingPhase.CATCHING_UP
    assert found.transaction_journal.source is SnapshotSource.ADMIN_CALLS


def test_stop_saves_and_the_next_start_reads_only_the_rest(store: Store, script: Script) -> None:
    script.logs[TRANSACTIONS].append(open_id())
    first = watched_of(script, store)
    first.observer.start()
    first.until(lambda seen: seen.transactions, "the id")
    assert first.observer.stop()
    assert store.saved is not None
    script.followed.clear()
    second = watched_of(script, store)
    second.observer.start()
    try:
        assert set(second.until(lambda seen: seen.transactions, "what was saved").transactions) == {"a"}
        assert script.followed == [(TRANSACTIONS, 1)]
    finally:
        assert second.observer.stop()


def test_saved_now_and_then_while_it_runs(store: Store, script: Script) -> None:
    script.logs[TRANSACTIONS].append(open_id())
    watched = watched_of(script, store, save_every_s=0.01)
    watched.observer.start()
    try:
        wait_for(lambda: store.saved is not None and store.saved.transactions.ids, DEADLINE_S, "a save")
    finally:
        assert watched.observer.stop()


def test_unusable_file_is_noted_in_every_snapshot(store: Store, script: Script) -> None:
    store.note = "the file was set aside"
    watched = watched_of(script, store)
    watched.observer.start()
    try:
        watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE, "it reads anew")
        assert watched.newest is not None
        assert watched.newest.note == "the file was set aside"
    finally:
        assert watched.observer.stop()
