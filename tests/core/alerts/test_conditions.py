"""A lasting condition is raised once and resolved once; one that cannot be observed is not resolved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from app.core.alerts.alert import Alert, AlertKind, AlertState
from app.core.alerts.conditions import MAX_OPEN_TOLD, AlertBounds, FirstSeen, SeenConditions, changes, seen
from app.core.blocked.advice import AdviceVerdict
from app.core.blocked.readers import BlockedPartition, BlockedReaders, BlockedReport
from app.core.clocks.broker_clocks import BrokerClocks
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters.cluster import Cluster
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TOPIC, TopicPartitions, TransactionState, TransactionStatus
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
BOUNDS = AlertBounds(transaction_open=timedelta(seconds=120), observer=timedelta(seconds=60))
CLUSTER = Cluster(name="prod", kafka_cluster_id="K", bootstrap_servers="b:1", created_at=NOW, created_by="anna")


IN_STEP = BrokerClocks({1: ClockOffset(least_ms=0, most_ms=0, measured_ms=NOW_MS)}, {(TOPIC, 0): 1})


def journal(
    topic: str, phase: ReadingPhase = ReadingPhase.LIVE, *, since_s: float = 1_000, age_s: float = 0, **more: object
):
    return JournalStatus(
        topic=topic,
        phase=phase,
        phase_since_ms=NOW_MS - int(since_s * 1000),
        as_of_ms=NOW_MS - int(age_s * 1000) if age_s >= 0 else -1,
        **more,  # pyright: ignore[reportArgumentType] - fields by name
    )


def transaction(
    name: str = "flink-1",
    *,
    open_s: float,
    timeout_s: float = 60,
    status: TransactionStatus = TransactionStatus.ONGOING,
    epoch: int = 3,
    producer: int = 7,
) -> LiveTransaction:
    state = TransactionState(
        producer_id=producer,
        producer_epoch=epoch,
        timeout_ms=int(timeout_s * 1000),
        status=status,
        partitions=(TopicPartitions("out", (0, 1)),),
        start_ms=NOW_MS - int(open_s * 1000),
    )
    return LiveTransaction(name, state, partition=0, offset=1)


def look(
    *transactions: LiveTransaction,
    journals: Sequence[JournalStatus] | None = None,
    cluster: Cluster = CLUSTER,
    blocked: Sequence[BlockedReport] = (),
    raised: Sequence[Alert] = (),
) -> SeenConditions:
    first, second = journals or [journal(topic) for topic in JOURNALS]
    snapshot = Snapshot(
        cluster=cluster.name,
        number=1,
        at_ms=NOW_MS,
        transaction_journal=first,
        group_journal=second,
        transactions={one.transactional_id: one for one in transactions},
        clocks=IN_STEP,
    )
    return seen([cluster], {cluster.name: snapshot}, BOUNDS, now=NOW, blocked=blocked, raised=raised)


def told(
    now_seen: SeenConditions, *raised: Alert, registered: frozenset[str] = frozenset({"K"})
) -> tuple[list[Alert], ...]:
    return changes(raised, now_seen, registered=registered, now=NOW)


def test_transaction_longer_than_the_bound_is_raised_with_whose_it_is() -> None:
    (alert,), over = told(look(transaction(open_s=121, timeout_s=3600)))
    assert over == []
    assert alert.kind is AlertKind.TRANSACTION_OPEN
    assert alert.state is AlertState.RAISED
    assert (alert.transactional_id, alert.producer_id, alert.producer_epoch) == ("flink-1", 7, 3)
    assert alert.partitions == ("out-0", "out-1")
    assert "open for 2 min" in alert.sentence
    assert "its timeout of 60 min is not over yet" in alert.sentence


def test_alert_about_a_transaction_that_blocks_readers_begins_with_the_sentence_of_the_overview() -> None:
    one = transaction(open_s=121, timeout_s=3600)
    blocked = BlockedReaders(
        cluster=CLUSTER.name,
        producer_id=7,
        producer_epoch=3,
        transactional_id="flink-1",
        owner="",
        is_ours=False,
        since_ms=NOW_MS - 121_000,
        until_ms=None,
        verdict=AdviceVerdict.FENCE,
        advice="",
        partitions=(BlockedPartition(topic="out", partition=0, last_stable=1, high_watermark=9, records=8),),
    )
    (alert,), _ = told(look(one, blocked=[BlockedReport(cluster=CLUSTER.name, causes=(blocked,))]))
    assert alert.sentence.startswith("out-0: 8 records blocked by flink-1. flink-1 on ")
    assert "consumers of its partitions are blocked" not in alert.sentence
    former = msgspec.structs.replace(blocked, producer_epoch=2)
    (alert,), _ = told(look(one, blocked=[BlockedReport(cluster=CLUSTER.name, causes=(former,))]))
    assert alert.sentence.startswith("flink-1 on ")
    assert alert.sentence.endswith("read_committed consumers of its partitions are blocked.")


def test_transaction_longer_than_its_own_timeout_is_raised_before_the_bound() -> None:
    assert told(look(transaction(open_s=24, timeout_s=10)))[0] == []
    (alert,), _ = told(look(transaction(open_s=26, timeout_s=10)))
    assert "its coordinator has not ended it" in alert.sentence


def test_transaction_whose_brokers_clock_is_unknown_is_as_old_as_it_is_known_here() -> None:
    """Its broker's stamp says 301 s: by a clock that is five minutes behind that is one second."""
    live, first_seen = transaction(open_s=301), FirstSeen()
    snapshot = Snapshot(
        cluster=CLUSTER.name,
        number=1,
        at_ms=NOW_MS,
        transaction_journal=journal(JOURNALS[0], ReadingPhase.REFUSED),
        group_journal=journal(JOURNALS[1], ReadingPhase.REFUSED),
        transactions={live.transactional_id: live},
    )

    def raised(after_s: float, *, remembered: FirstSeen, told: Sequence[Alert] = ()) -> list[Alert]:
        now = NOW + timedelta(seconds=after_s)
        journals = (snapshot.transaction_journal, snapshot.group_journal)
        first, second = (msgspec.structs.replace(one, as_of_ms=one.as_of_ms + int(after_s * 1000)) for one in journals)
        then = msgspec.structs.replace(snapshot, transaction_journal=first, group_journal=second)
        found = seen([CLUSTER], {CLUSTER.name: then}, BOUNDS, now=now, first_seen=remembered, raised=told)
        return [alert for alert in found.conditions if alert.kind is AlertKind.TRANSACTION_OPEN]

    assert raised(0, remembered=first_seen) == []
    assert raised(74, remembered=first_seen) == []
    [alert] = raised(76, remembered=first_seen)
    assert "open for at least 76 s" in alert.sentence
    # A server that has just started has observed it only briefly; the alert is raised, and it is still open.
    assert raised(77, remembered=FirstSeen()) == []
    assert [again.subject for again in raised(77, remembered=FirstSeen(), told=[alert])] == [alert.subject]


def test_transaction_that_is_not_open_or_not_old_is_not_raised() -> None:
    ended = transaction(open_s=500, status=TransactionStatus.COMPLETE_COMMIT)
    assert look(ended, transaction("b", open_s=60)).conditions == ()


def test_decided_transaction_whose_markers_do_not_come_is_raised() -> None:
    (alert,) = look(transaction(open_s=500, status=TransactionStatus.PREPARE_COMMIT)).conditions
    assert "PrepareCommit" in alert.sentence


def test_raised_alert_is_not_raised_again_and_is_resolved_at_its_end() -> None:
    (raised,), _ = told(look(transaction(open_s=121)))
    assert told(look(transaction(open_s=121)), raised) == ([], [])
    new, (over,) = told(look(), raised)
    assert new == []
    assert over.state is AlertState.RESOLVED
    assert over.subject == raised.subject
    assert over.sentence.startswith("Over after 2 min.")


def test_next_transaction_of_the_same_id_is_another_subject() -> None:
    (first,), _ = told(look(transaction(open_s=300)))
    new, over = told(look(transaction(open_s=150, epoch=4)), first)
    assert [one.subject for one in over] == [first.subject]
    assert [one.subject for one in new] != [first.subject]


def test_transaction_is_not_resolved_while_it_is_not_observed() -> None:
    (raised,), _ = told(look(transaction(open_s=121)))
    groups = journal(JOURNALS[1])
    for blind in (
        journal(JOURNALS[0], ReadingPhase.LOST, since_s=1),
        journal(JOURNALS[0], ReadingPhase.CONNECTING, since_s=1, age_s=-1),
        journal(JOURNALS[0], ReadingPhase.LIVE, age_s=61),
        journal(JOURNALS[0], ReadingPhase.REFUSED, since_s=1, age_s=-1),
    ):
        assert told(look(journals=[blind, groups]), raised)[1] == [], blind.phase
    by_admin_calls = journal(JOURNALS[0], ReadingPhase.REFUSED, since_s=1, age_s=5)
    assert len(told(look(journals=[by_admin_calls, groups]), raised)[1]) == 1


def test_transaction_of_a_cluster_that_is_no_longer_watched_is_resolved() -> None:
    (raised,), _ = told(look(transaction(open_s=121)))
    nothing = seen([], {}, BOUNDS, now=NOW)
    assert len(changes([raised], nothing, registered=set(), now=NOW)[1]) == 1
    assert changes([raised], nothing, registered={"K"}, now=NOW)[1] == []


def test_hanging_transactions_are_resolved_by_those_who_search_for_them() -> None:
    (raised,), _ = told(look(transaction(open_s=121)))
    hanging = msgspec.structs.replace(raised, kind=AlertKind.TRANSACTION_HANGING)
    assert told(look(), hanging)[1] == []


def test_observer_that_cannot_read_is_an_alert_after_the_bound() -> None:
    groups = journal(JOURNALS[1])
    assert look(journals=[journal(JOURNALS[0], ReadingPhase.LOST, since_s=59), groups]).conditions == ()
    (alert,) = look(
        journals=[journal(JOURNALS[0], ReadingPhase.LOST, since_s=61, problem="no Kafka broker answers"), groups]
    ).conditions
    assert alert.kind is AlertKind.OBSERVER_BLIND
    assert alert.topic == JOURNALS[0]
    assert "no Kafka broker answers" in alert.sentence


def test_cluster_without_answers_is_one_alert_for_both_journals_and_one_resolution() -> None:
    lost = [journal(topic, ReadingPhase.LOST, since_s=61, problem="no Kafka broker answers") for topic in JOURNALS]
    (alert,) = look(journals=lost).conditions
    assert (alert.kind, alert.topic) == (AlertKind.OBSERVER_BLIND, JOURNALS[0])
    (raised,), _ = told(look(journals=lost))
    _, (over,) = told(look(journals=[journal(topic) for topic in JOURNALS]), raised)
    assert over.subject == alert.subject
    groups_first = look(journals=[journal(JOURNALS[0]), lost[1]])
    (of_groups,) = groups_first.conditions
    assert told(look(journals=lost, raised=[of_groups]), of_groups)[1] == [], (
        "an alert of the second journal is not resolved by the first"
    )
    refused = [journal(JOURNALS[0], ReadingPhase.LOST, since_s=61), journal(JOURNALS[1], age_s=61)]
    assert len(look(journals=refused).conditions) == 2, "two causes"


def test_observer_that_is_behind_is_an_alert_after_the_bound() -> None:
    groups = journal(JOURNALS[1])
    assert look(journals=[journal(JOURNALS[0], age_s=59), groups]).conditions == ()
    (alert,) = look(journals=[journal(JOURNALS[0], age_s=61, lag_records=5_000), groups]).conditions
    assert alert.kind is AlertKind.OBSERVER_BEHIND
    assert "61 s old, 5000 records are not read yet" in alert.sentence
    (alert,) = look(
        journals=[journal(JOURNALS[0], ReadingPhase.CATCHING_UP, since_s=90, age_s=-1, lag_records=9), groups]
    ).conditions
    assert alert.kind is AlertKind.OBSERVER_BEHIND


def test_observer_that_has_nothing_to_read_is_well() -> None:
    assert look(journals=[journal(topic, ReadingPhase.ABSENT, age_s=-1) for topic in JOURNALS]).conditions == ()


def test_observer_is_not_resolved_by_a_server_that_only_begins_to_look() -> None:
    groups = journal(JOURNALS[1])
    (raised,), _ = told(look(journals=[journal(JOURNALS[0], ReadingPhase.LOST, since_s=61), groups]))
    begins = look(journals=[journal(JOURNALS[0], ReadingPhase.CONNECTING, since_s=1, age_s=-1), groups])
    assert told(begins, raised)[1] == []
    assert len(told(look(), raised)[1]) == 1


def test_observer_that_has_not_read_yet_is_no_alert() -> None:
    """Before its first snapshot: a server that has just been started reads what it saved of its journals."""
    begins = JournalStatus(topic=JOURNALS[0], phase=ReadingPhase.CONNECTING, phase_since_ms=-1)
    groups = journal(JOURNALS[1])
    assert look(journals=[begins, groups]).conditions == ()
    (raised,), _ = told(look(journals=[journal(JOURNALS[0], ReadingPhase.LOST, since_s=61), groups]))
    assert told(look(journals=[begins, groups]), raised) == ([], [])


def test_observer_near_the_bound_is_one_alert_until_it_is_current() -> None:
    groups = journal(JOURNALS[1])
    (raised,), _ = told(look(journals=[journal(JOURNALS[0], age_s=61), groups]))
    assert told(look(journals=[journal(JOURNALS[0], age_s=55), groups]), raised) == ([], [])
    first_reading = journal(JOURNALS[0], ReadingPhase.CATCHING_UP, since_s=1, age_s=-1)
    assert told(look(journals=[first_reading, groups]), raised) == ([], [])
    assert len(told(look(journals=[journal(JOURNALS[0], age_s=29), groups]), raised)[1]) == 1


def test_transaction_whose_end_is_decided_is_the_same_subject() -> None:
    """Its coordinator writes the next epoch then, also when the markers do not get through."""
    (raised,), _ = told(look(transaction(open_s=121)))
    decided = transaction(open_s=121, status=TransactionStatus.PREPARE_ABORT, epoch=4)
    assert told(look(decided), raised) == ([], [])


def test_many_transactions_are_alerts_of_the_oldest_with_the_number_of_others() -> None:
    many = [transaction(f"t-{number}", open_s=200 + number, producer=number) for number in range(MAX_OPEN_TOLD + 30)]
    new, _ = told(look(*many))
    assert [one.transactional_id for one in new] == [f"t-{number}" for number in range(MAX_OPEN_TOLD + 29, 29, -1)]
    assert all("30 more are open for too long there" in one.sentence for one in new)
    assert told(look(*many), *new) == ([], [])
    (next_one,), over = told(look(*many[:-1]), *new)
    assert [one.transactional_id for one in over] == [many[-1].transactional_id]
    assert next_one.transactional_id == "t-29"
    assert "29 more" in next_one.sentence


def test_long_names_make_a_subject_that_fits_into_an_index() -> None:
    cluster = msgspec.structs.replace(CLUSTER, kafka_cluster_id="K" * 40_000)
    (one,) = look(transaction(open_s=121), cluster=cluster).conditions
    (other,) = look(transaction(open_s=122), cluster=cluster).conditions
    assert len(one.subject) <= 400
    assert one.subject != other.subject
