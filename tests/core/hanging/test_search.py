"""The choice of partitions to check: never more than the rate allows, and none without need."""

from __future__ import annotations

import msgspec
import pytest

from app.core.blocked.facts import PartitionFacts, Refused
from app.core.clusters.partition import Partition
from app.core.hanging.accounting import BEHIND_MS, LARGEST_TIMEOUT_MS, OVERDUE_MS, SKEW_MS, Accounts
from app.core.hanging.hanging_transaction import HangingEnding, HangingTransaction
from app.core.hanging.search import AGAIN, FOUND_AGAIN_MS, PartitionSearch, StableEnd
from app.core.observing.snapshot import ReadingPhase, Snapshot
from tests.core.blocked.answers import ID, held, known, opened, read_through
from tests.support.observing import NOW_MS, cluster, hear, state_of, transaction_batch

CLUSTER = "kafka-1"
AT = Partition("orders", 0)
GRACE_MS = 10_000
AWAY = Refused("ListTransactions of broker 2", "KafkaTimeoutError")


def snapshot_of(*open_since_ms: int) -> Snapshot:
    """A followed journal with an id for each transaction open in orders-0; timeouts of a minute."""
    live = cluster()
    hear(live)
    for number, start_ms in enumerate(open_since_ms):
        hear(live, transaction_batch(f"id-{number}", state_of(producer_id=number, start_ms=start_ms), at=number))
    live.enter(live.transactions.progress.topic, ReadingPhase.LIVE, now_ms=NOW_MS)
    return live.snapshot(now_ms=NOW_MS)


def accounts(*open_since_ms: int) -> Accounts:
    return Accounts(snapshot_of(*open_since_ms), [AT], unaccounted_ms=GRACE_MS)


def searching(*, asks_per_s: float = 10, found: tuple[HangingTransaction, ...] = ()) -> PartitionSearch:
    return PartitionSearch(CLUSTER, asks_per_s=asks_per_s, known=found)


def stand(search: PartitionSearch, *, until_ms: int, at: Partition = AT, last_stable: int = 10) -> None:
    """It is blocked from NOW_MS on."""
    search.note_ends({at: StableEnd(last_stable, 14)}, now_ms=NOW_MS)
    search.note_ends({at: StableEnd(last_stable, 15)}, now_ms=until_ms)


def found_in(search: PartitionSearch, facts: PartitionFacts, *, now_ms: int = NOW_MS) -> tuple[HangingTransaction, ...]:
    return search.note_look(facts, now_ms=now_ms).found


def test_unexplained_block_is_checked() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS - 1)
    assert search.due(accounts(), now_ms=NOW_MS + GRACE_MS - 1) == []
    search.note_ends({AT: StableEnd(10, 15)}, now_ms=NOW_MS + GRACE_MS)
    assert search.due(accounts(), now_ms=NOW_MS + GRACE_MS) == [AT]


def test_moved_and_checked_partitions_are_no_suspects() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    stand(search, until_ms=NOW_MS + GRACE_MS - 1, at=Partition("payments", 0))
    assert search.suspects(for_ms=GRACE_MS, now_ms=NOW_MS + GRACE_MS) == (AT,)
    search.note_look(held(known()), now_ms=NOW_MS + GRACE_MS)
    assert search.suspects(for_ms=GRACE_MS, now_ms=NOW_MS + GRACE_MS) == ()


def test_gap_in_the_sweeps_is_no_block() -> None:
    search = searching()
    search.note_ends({AT: StableEnd(10, 14)}, now_ms=NOW_MS)
    assert search.due(accounts(), now_ms=NOW_MS + 3_600_000) == []


def test_partition_that_moves_is_not_checked() -> None:
    search = searching()
    for step in range(100):
        search.note_ends({AT: StableEnd(10 + step, 1_000)}, now_ms=NOW_MS + step * GRACE_MS)
        assert search.due(accounts(), now_ms=NOW_MS + step * GRACE_MS) == []
    search.note_ends({AT: StableEnd(1_000, 1_000)}, now_ms=NOW_MS + 100 * GRACE_MS)
    assert not search.held


def test_young_transaction_is_not_checked() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + BEHIND_MS - 1)
    assert search.due(accounts(NOW_MS), now_ms=NOW_MS + BEHIND_MS - 1) == []


def test_hanging_transaction_behind_a_live_one_is_found() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + BEHIND_MS)
    assert search.due(accounts(NOW_MS), now_ms=NOW_MS + BEHIND_MS) == [AT]
    rows = (opened(start=10), opened(producer_id=99, start=12))
    (one,) = found_in(search, held(known(), rows=rows))
    assert one.identity == (99, 2, 12)


def test_without_the_journal_explained_blocks_are_not_checked() -> None:
    """An id without the DESCRIBE permission would look like a hanging transaction."""
    search = searching()
    stand(search, until_ms=NOW_MS + BEHIND_MS)
    followed = snapshot_of(NOW_MS)
    refused = msgspec.structs.replace(followed.transaction_journal, phase=ReadingPhase.REFUSED)
    seen = Accounts(msgspec.structs.replace(followed, transaction_journal=refused), [AT], unaccounted_ms=GRACE_MS)
    assert search.due(seen, now_ms=NOW_MS + BEHIND_MS) == []


def test_explained_blocks_are_checked_after_unexplained_ones() -> None:
    search = searching(asks_per_s=1)
    stand(search, until_ms=NOW_MS + BEHIND_MS)
    search.note_ends({Partition("payments", 0): StableEnd(0, 1)}, now_ms=NOW_MS + GRACE_MS)
    search.note_ends({Partition("payments", 0): StableEnd(0, 1)}, now_ms=NOW_MS + BEHIND_MS)
    assert search.due(accounts(NOW_MS), now_ms=NOW_MS + BEHIND_MS) == [Partition("payments", 0)]
    search.note_look(msgspec.structs.replace(held(None, rows=()), topic="payments"), now_ms=NOW_MS + BEHIND_MS)
    assert search.due(accounts(NOW_MS), now_ms=NOW_MS + BEHIND_MS + 1_000) == [AT]


def test_refused_check_of_an_explained_block_is_reported_once_overdue() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + BEHIND_MS)
    search.due(accounts(NOW_MS), now_ms=NOW_MS + BEHIND_MS)
    search.note_look(held(None, rows=AWAY), now_ms=NOW_MS + BEHIND_MS)
    assert search.unclear == ()
    overdue_ms = NOW_MS + 60_000 + OVERDUE_MS
    search.note_ends({AT: StableEnd(10, 15)}, now_ms=overdue_ms)
    search.due(accounts(NOW_MS), now_ms=overdue_ms)
    assert [one.reason for one in search.unclear] == [AWAY.sentence]


def test_overdue_transaction_is_checked_before_its_next_time() -> None:
    search = searching()
    now_ms, overdue_ms = NOW_MS + BEHIND_MS, NOW_MS + 60_000 + OVERDUE_MS
    stand(search, until_ms=now_ms)
    for _ in range(10):
        search.due(accounts(NOW_MS), now_ms=now_ms)
        search.note_look(held(known()), now_ms=now_ms)
    search.note_ends({AT: StableEnd(10, 15)}, now_ms=overdue_ms - 1)
    assert search.due(accounts(NOW_MS), now_ms=overdue_ms - 1) == []
    search.note_ends({AT: StableEnd(10, 15)}, now_ms=overdue_ms)
    assert search.suspects(for_ms=GRACE_MS, now_ms=overdue_ms) == (AT,)
    assert search.due(accounts(NOW_MS), now_ms=overdue_ms) == [AT]


def test_later_transactions_do_not_explain_a_block() -> None:
    """A hanging transaction is found in a partition with a continuous series of other transactions."""
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    assert search.due(accounts(NOW_MS + SKEW_MS), now_ms=NOW_MS + GRACE_MS) == []
    assert search.due(accounts(NOW_MS + SKEW_MS + 1), now_ms=NOW_MS + GRACE_MS) == [AT]


@pytest.mark.parametrize("phase", [ReadingPhase.CATCHING_UP, ReadingPhase.REFUSED, ReadingPhase.OFF])
def test_without_the_journal_the_largest_timeout_explains_a_block(phase: ReadingPhase) -> None:
    followed = snapshot_of(NOW_MS)
    journal = msgspec.structs.replace(followed.transaction_journal, phase=phase)
    seen = Accounts(msgspec.structs.replace(followed, transaction_journal=journal), [AT], unaccounted_ms=GRACE_MS)
    assert seen.bound_ms(AT, since_ms=NOW_MS) == 60_000 + OVERDUE_MS
    nothing = msgspec.structs.replace(followed, transaction_journal=journal, transactions={})
    none_seen = Accounts(nothing, [AT], unaccounted_ms=GRACE_MS)
    assert none_seen.bound_ms(AT, since_ms=NOW_MS) == LARGEST_TIMEOUT_MS + OVERDUE_MS


def test_rate_bounds_the_checks_the_longest_first() -> None:
    search = searching(asks_per_s=10)
    for number in range(1_000):
        search.note_ends({Partition("many", number): StableEnd(0, 1)}, now_ms=NOW_MS + number)
    late_ms = NOW_MS + GRACE_MS + 1_000
    search.note_ends({Partition("many", number): StableEnd(0, 1) for number in range(1_000)}, now_ms=late_ms)
    asked: list[Partition] = []
    for turn in range(101):
        # A turn comes twice a second; what was not used is not saved up for later.
        now_ms = late_ms + (turn * 500 if turn < 100 else 3_600_000)
        due = search.due(accounts(), now_ms=now_ms)
        assert len(due) <= 10
        for topic, partition in due:
            facts = msgspec.structs.replace(held(None, rows=()), topic=topic, partition=partition)
            search.note_look(facts, now_ms=now_ms)
        asked += due
        if turn == 0:
            assert due == [Partition("many", number) for number in range(10)]
    assert len(asked) <= 10 + 99 * 5 + 10


def test_inconspicuous_partitions_are_checked_at_growing_intervals() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    now_ms, gaps = NOW_MS + GRACE_MS, list[int]()
    for _ in range(12):
        last_ms = now_ms
        while search.due(accounts(), now_ms=now_ms) != [AT]:
            now_ms += 1_000
        search.note_look(held(known()), now_ms=now_ms)
        gaps.append(now_ms - last_ms)
    assert gaps == sorted(gaps)
    assert gaps[-1] == AGAIN.longest_s * 1_000


def test_hanging_transaction_is_reported_once_with_commands() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    (one,) = found_in(search, held(None))
    assert (one.at, one.identity, one.coordinator_epoch) == (AT, opened().identity, 3)
    assert (one.transactional_id, one.is_corroborated, one.high_watermark) == (None, True, 14)
    assert "belongs to no transactional id that any coordinator knows" in one.sentence
    assert found_in(search, held(None), now_ms=NOW_MS + 5) == ()
    (still,) = search.found
    assert (still.found_ms, still.seen_ms) == (NOW_MS, NOW_MS + 5)


def test_producer_without_a_marker_there_is_ended_with_the_lowest_coordinator_epoch() -> None:
    search = searching()
    (one,) = found_in(search, held(None, rows=(opened(coordinator_epoch=-1),)))
    assert one.coordinator_epoch == 0


def test_hanging_transaction_of_a_completed_id_names_the_id() -> None:
    (one,) = found_in(searching(), held(known(state="CompleteCommit", partitions=())))
    assert one.transactional_id == ID
    assert "which its coordinator has as CompleteCommit" in one.why


@pytest.mark.parametrize(
    "facts",
    [held(known()), held(known(state="PrepareAbort")), held(None, ended_since=True), held(None, unanswered=(AWAY,))],
    ids=["open", "decided", "ended while it was asked", "a coordinator is away"],
)
def test_transaction_that_may_end_is_not_hanging(facts: PartitionFacts) -> None:
    assert found_in(searching(), facts) == ()


def test_refusals_and_unreachable_brokers_are_reported() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    search.note_look(held(None, unanswered=(AWAY,)), now_ms=NOW_MS)
    (one,) = search.unclear
    assert ((one.topic, one.partition), one.since_ms, one.reason) == (AT, NOW_MS, AWAY.sentence)
    refused = Refused("DescribeProducers of orders-0", "TOPIC_AUTHORIZATION_FAILED", "READ on the topic of orders-0")
    search.note_look(held(None, rows=refused), now_ms=NOW_MS)
    assert "it needs READ on the topic" in search.unclear[0].reason
    search.note_look(held(known()), now_ms=NOW_MS)
    assert search.unclear == ()


def test_found_transaction_is_checked_when_the_lso_moves() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    search.due(accounts(), now_ms=NOW_MS)
    found_in(search, held(None))
    search.note_ends({AT: StableEnd(10, 20)}, now_ms=NOW_MS + 1_000)
    assert search.due(accounts(), now_ms=NOW_MS + 1_000) == []
    search.note_ends({AT: StableEnd(20, 20)}, now_ms=NOW_MS + 2_000)
    assert search.due(accounts(), now_ms=NOW_MS + 2_000) == [AT]
    over = search.note_look(read_through(held(None)), now_ms=NOW_MS + 2_000).over
    assert [(one.identity, ending) for one, ending in over] == [(opened().identity, None)]
    assert search.found == ()


def test_found_transaction_is_checked_periodically() -> None:
    search = searching()
    stand(search, until_ms=NOW_MS + GRACE_MS)
    found_in(search, held(None))
    assert search.due(accounts(), now_ms=NOW_MS + FOUND_AGAIN_MS - 1) == []
    assert search.due(accounts(), now_ms=NOW_MS + FOUND_AGAIN_MS) == [AT]


def test_found_transaction_stays_without_a_new_answer() -> None:
    search = searching()
    found_in(search, held(None))
    for facts in (held(None, unanswered=(AWAY,)), held(None, rows=AWAY)):
        assert search.note_look(facts, now_ms=NOW_MS).over == ()
        assert len(search.found) == 1


def test_found_transaction_is_adopted_by_the_next_one() -> None:
    search = searching()
    found_in(search, held(known(state="CompleteCommit", partitions=())))
    over = search.note_look(held(known()), now_ms=NOW_MS).over
    assert [ending for _, ending in over] == [HangingEnding.ADOPTED]


def test_found_transaction_of_a_deleted_topic_is_gone() -> None:
    search = searching()
    found_in(search, held(None))
    search.note_partitions(frozenset())
    assert search.due(accounts(), now_ms=NOW_MS) == [AT]
    nowhere = Refused("Metadata of orders", "UNKNOWN_TOPIC_OR_PARTITION")
    facts = msgspec.structs.replace(read_through(held(None)), ends=nowhere)
    assert [ending for _, ending in search.note_look(facts, now_ms=NOW_MS).over] == [HangingEnding.GONE]


def test_topic_without_permission_ends_nothing() -> None:
    search = searching()
    found_in(search, held(None))
    hidden = Refused("Metadata of orders", "TOPIC_AUTHORIZATION_FAILED", "DESCRIBE on the topic orders")
    facts = msgspec.structs.replace(read_through(held(None)), ends=hidden)
    assert search.note_look(facts, now_ms=NOW_MS).over == ()
    assert len(search.found) == 1


def test_known_transactions_are_checked_at_once_after_a_restart() -> None:
    before = searching()
    found = found_in(before, held(None))
    after = searching(found=found)
    assert after.found == found
    assert after.due(accounts(), now_ms=NOW_MS) == [AT]
