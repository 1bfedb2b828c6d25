"""One partition: each answer of the brokers leads to one verdict, and the chain names its sources."""

from __future__ import annotations

import re

import msgspec
import pytest

from app.core.blocked.chain import as_text
from app.core.blocked.diagnosis import AdviceVerdict, AnswerSource, Diagnosis, diagnose_partition, explain_topic
from app.core.blocked.facts import LogEnds, Refused, TaskOwner
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters.partition import Partition
from tests.core.blocked.answers import ID, NOW_MS, asked, held, known, opened, read_through

REFUSED = Refused("DescribeProducers of orders-0", "TOPIC_AUTHORIZATION_FAILED", "READ on the topic of orders-0")
HOUR_MS = 3_600_000
AWAY = Refused("ListTransactions of broker 2", "KafkaTimeoutError")


def test_chain_leads_from_blocked_consumers_to_the_transactional_id() -> None:
    found = diagnose_partition(held(known()), asked())
    assert found.verdict is AdviceVerdict.WAIT
    assert found.headline == (
        "read_committed consumers of orders-0 are blocked at offset 10. "
        "4 records are behind it, the oldest stamped 22:14:53 UTC."
    )
    assert [(link.source, link.seen_ms) for link in found.links] == [
        (AnswerSource.LIST_OFFSETS, NOW_MS - 300),
        (AnswerSource.DESCRIBE_PRODUCERS, NOW_MS - 200),
        (AnswerSource.COORDINATORS, NOW_MS - 100),
    ]
    assert "producer 4015 epoch 2" in found.links[1].sentence
    assert f"which is {ID}, ongoing for 7 s, in 2 partitions, timeout 10 s" in found.links[2].sentence
    assert found.until_ms == NOW_MS + 3_000
    assert found.advice.startswith("It ends by itself in 3 s")
    assert f"kafka-transactions.sh --bootstrap-server b1:9092 describe --transactional-id {ID}" in found.commands


def test_partition_without_open_transaction_is_not_blocked() -> None:
    found = diagnose_partition(read_through(held(known())), asked())
    assert found.verdict is AdviceVerdict.FREE
    assert "up to its end, 14" in found.headline


def test_fence_is_recommended_for_a_long_timeout() -> None:
    found = diagnose_partition(held(known(timeout_ms=900_000)), asked())
    assert found.verdict is AdviceVerdict.FENCE
    assert f"fenceline fence {ID} --bootstrap-server b1:9092" in found.commands


def test_fence_is_recommended_for_an_overdue_transaction() -> None:
    assert diagnose_partition(held(known(age_ms=40_000)), asked()).verdict is AdviceVerdict.FENCE
    # Coordinators check every 10 s.
    assert diagnose_partition(held(known(age_ms=12_000)), asked()).verdict is AdviceVerdict.WAIT


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, -300_000, -1_000, 0, 1_000, 300_000, HOUR_MS])
def test_verdict_uses_the_coordinators_clock_at_any_skew(ahead_ms: int) -> None:
    """A transaction of one second gets WAIT, and an overdue one gets FENCE, at any skew."""
    clock = ClockOffset(least_ms=-ahead_ms - 200, most_ms=-ahead_ms + 200, measured_ms=NOW_MS)

    def found(*, age_ms: int, timeout_ms: int = 60_000) -> Diagnosis:
        stamped = known(age_ms=age_ms - ahead_ms, timeout_ms=timeout_ms, clock=clock)
        return diagnose_partition(held(stamped), asked())

    young = found(age_ms=1_000)
    assert (young.verdict, len(young.commands)) == (AdviceVerdict.WAIT, 1)
    assert young.until_ms == NOW_MS + 59_000
    assert "ongoing for 0.8 s" in young.links[2].sentence
    assert found(age_ms=95_000).verdict is AdviceVerdict.FENCE
    assert found(age_ms=5_000, timeout_ms=900_000).verdict is AdviceVerdict.FENCE
    assert found(age_ms=890_000, timeout_ms=900_000).verdict is AdviceVerdict.WAIT


@pytest.mark.parametrize("age_ms", [-HOUR_MS, 1_000, 301_000, HOUR_MS])
@pytest.mark.parametrize(
    ("timeout_ms", "verdict"), [(60_000, AdviceVerdict.WAIT), (900_000, AdviceVerdict.CANNOT_TELL)]
)
def test_no_fence_without_the_coordinators_clock(age_ms: int, timeout_ms: int, verdict: AdviceVerdict) -> None:
    found = diagnose_partition(held(known(age_ms=age_ms, timeout_ms=timeout_ms, clock=None)), asked())
    assert found.verdict is verdict
    assert not any("fence" in line for line in found.commands)
    assert found.until_ms is None
    assert "the clock of broker 1 is not measured" in found.advice
    assert not re.search(r"\d (s|min|h) ago", as_text(found))


def test_clock_measured_by_the_server_replaces_a_missing_measurement() -> None:
    behind = ClockOffset(least_ms=299_900, most_ms=300_100, measured_ms=NOW_MS)
    facts = held(known(age_ms=301_000, timeout_ms=60_000, clock=None))
    assert diagnose_partition(facts, asked(clocks={1: behind})).verdict is AdviceVerdict.WAIT
    assert diagnose_partition(facts, asked(clocks={2: behind})).until_ms is None


def test_record_timestamps_are_shown_unchanged() -> None:
    text = as_text(diagnose_partition(held(known(clock=None)), asked()))
    assert "its newest record is stamped 22:14:53 UTC" in text


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_wait_is_recommended_while_markers_are_written(state: str) -> None:
    found = diagnose_partition(held(known(state=state, producer_epoch=3)), asked())
    assert found.verdict is AdviceVerdict.WAIT
    assert "Fencing would not help" in found.advice
    assert found.until_ms is None


@pytest.mark.parametrize(
    "said",
    [
        None,
        known(state="CompleteAbort", partitions=()),
        known(state="Empty", partitions=(), producer_epoch=3),
        # The id's open transaction does not have this partition.
        known(partitions=(Partition("payments", 0),)),
    ],
    ids=["unknown producer id", "completed", "initialised again", "open elsewhere"],
)
def test_transaction_that_no_coordinator_will_end_is_hanging(said: object) -> None:
    found = diagnose_partition(held(said), asked())  # type: ignore[arg-type]
    assert found.verdict is AdviceVerdict.END
    assert found.commands == (
        "fenceline end orders 0 --bootstrap-server b1:9092",
        "kafka-transactions.sh --bootstrap-server b1:9092 abort --topic orders --partition 0 --start-offset 10",
    )


def test_end_is_not_recommended_for_a_hanging_transaction_that_may_be_committed() -> None:
    found = diagnose_partition(held(known(state="CompleteCommit", producer_epoch=3, partitions=())), asked())
    assert found.verdict is AdviceVerdict.CANNOT_TELL
    assert "an abort marker would discard records that were confirmed to its producer as committed" in found.advice
    assert found.links[-1].sentence.endswith("so that it may be committed")


@pytest.mark.parametrize("said", [None, known(state="CompleteCommit", partitions=())])
def test_transaction_that_ended_during_the_check_is_not_hanging(said: object) -> None:
    """It is in the leader's first answer and not in the coordinator's later one: it may just have been committed."""
    found = diagnose_partition(held(said, ended_since=True), asked())  # type: ignore[arg-type]
    assert found.verdict is AdviceVerdict.UNSETTLED


def test_transaction_that_begins_behind_the_lso_is_not_the_cause() -> None:
    assert diagnose_partition(held(known(), rows=(opened(start=12),)), asked()).verdict is AdviceVerdict.UNSETTLED


def test_first_open_transaction_blocks() -> None:
    rows = (opened(producer_id=9, start=12), opened(start=10), opened(producer_id=8, start=11))
    found = diagnose_partition(held(known(), rows=rows), asked())
    assert "producer 4015" in found.links[1].sentence
    assert "2 other transactions open behind it" in found.links[1].sentence


def test_transaction_is_not_hanging_while_a_coordinator_does_not_answer() -> None:
    found = diagnose_partition(held(None, unanswered=(AWAY,)), asked())
    assert found.verdict is AdviceVerdict.CANNOT_TELL
    assert AWAY.sentence in [link.sentence for link in found.links]


def test_advice_warns_of_missing_permissions_while_the_journal_is_not_read() -> None:
    assert "may describe all transactional ids" in diagnose_partition(held(None, is_corroborated=False), asked()).advice
    assert "may describe" not in diagnose_partition(held(None), asked()).advice


def test_missing_permission_is_named() -> None:
    found = diagnose_partition(held(known(), rows=REFUSED), asked())
    assert found.verdict is AdviceVerdict.CANNOT_TELL
    assert found.advice == "Ask for READ on the topic of orders-0."
    no_ends = msgspec.structs.replace(held(known()), ends=REFUSED)
    assert diagnose_partition(no_ends, asked()).verdict is AdviceVerdict.CANNOT_TELL


def test_live_owner_comes_before_the_fence() -> None:
    fresh = {ID: TaskOwner(name="instance 2, task 0 on w3", heartbeat_ms=NOW_MS - 900)}
    found = diagnose_partition(held(known(timeout_ms=900_000)), asked(owners=fresh))
    assert found.verdict is AdviceVerdict.OWNER
    assert "whose owner is instance 2, task 0 on w3, last heartbeat 0.9 s ago" in [
        link.sentence for link in found.links
    ]
    silent = {ID: TaskOwner(name="instance 2, task 0 on w3", heartbeat_ms=NOW_MS - 6_000)}
    assert diagnose_partition(held(known(timeout_ms=900_000)), asked(owners=silent)).verdict is AdviceVerdict.FENCE
    assert "not a Fenceline task" in diagnose_partition(held(known()), asked(owners={})).links[-1].sentence


def test_odd_names_are_quoted_in_commands() -> None:
    odd = msgspec.structs.replace(known(), transactional_id="it's; rm -rf /")
    found = diagnose_partition(held(odd), asked())
    assert found.commands[0].endswith("""--transactional-id 'it'"'"'s; rm -rf /'""")


def test_offsets_without_records_are_counted_as_offsets() -> None:
    facts = msgspec.structs.replace(held(known()), waiting=None, ends=LogEnds(0, 10, 11))
    assert "1 offset is behind it." in diagnose_partition(facts, asked()).headline


def test_topic_starts_with_its_worst_partition() -> None:
    free = msgspec.structs.replace(read_through(held(None)), partition=1)
    found = explain_topic("orders", [free, held(None)], asked())
    assert (found.verdict, [one.subject for one in found.partitions]) == (AdviceVerdict.END, ["orders-0", "orders-1"])
    assert found.headline == "read_committed consumers of orders are blocked in 1 of 2 partitions, worst in orders-0."
    assert explain_topic("orders", [free], asked()).headline.startswith("orders is not blocked")


def test_chain_as_text() -> None:
    text = as_text(diagnose_partition(held(known()), asked())).splitlines()
    assert [line.split()[0] for line in text] == [
        "read_committed",
        "because",
        "because",
        "which",
        "wait:",
        "kafka-transactions.sh",
    ]
    assert text[1].endswith(" UTC)")
