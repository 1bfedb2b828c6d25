"""One partition: each answer that brokers may give leads to one verdict, and the chain says what it stands on."""

from __future__ import annotations

import re

import msgspec
import pytest

from app.core.blocked.chain import as_text
from app.core.blocked.diagnosis import Diagnosis, Source, Verdict, diagnose_partition, explain_topic
from app.core.blocked.facts import LogEnds, Owner, Refused
from app.core.clocks.clock_offset import ClockOffset
from tests.core.blocked.answers import ID, NOW_MS, asked, held, known, opened, read_through

REFUSED = Refused("DescribeProducers of orders-0", "TOPIC_AUTHORIZATION_FAILED", "READ on the topic of orders-0")
HOUR_MS = 3_600_000
AWAY = Refused("ListTransactions of broker 2", "KafkaTimeoutError")


def test_open_transaction_is_named_from_readers_to_its_id() -> None:
    found = diagnose_partition(held(known()), asked())
    assert found.verdict is Verdict.WAIT
    assert (
        found.headline
        == "Readers of orders-0 see nothing from offset 10 on. 4 records wait, the oldest stamped 22:14:53 UTC."
    )
    assert [(link.source, link.seen_ms) for link in found.links] == [
        (Source.LIST_OFFSETS, NOW_MS - 300),
        (Source.DESCRIBE_PRODUCERS, NOW_MS - 200),
        (Source.COORDINATORS, NOW_MS - 100),
    ]
    assert "producer 4015 epoch 2" in found.links[1].sentence
    assert f"which is {ID}, ongoing for 7 s, in 2 partitions, timeout 10 s" in found.links[2].sentence
    assert found.until_ms == NOW_MS + 3_000
    assert found.advice.startswith("It ends by itself in 3 s")
    assert f"kafka-transactions.sh --bootstrap-server b1:9092 describe --transactional-id {ID}" in found.commands


def test_nothing_waits() -> None:
    found = diagnose_partition(read_through(held(known())), asked())
    assert found.verdict is Verdict.FREE
    assert "up to its end, 14" in found.headline


def test_transaction_with_a_long_timeout_is_to_be_fenced_if_its_process_is_gone() -> None:
    found = diagnose_partition(held(known(timeout_ms=900_000)), asked())
    assert found.verdict is Verdict.FENCE
    assert f"fenceline fence {ID} --bootstrap-server b1:9092" in found.commands


def test_transaction_that_the_coordinator_should_have_ended_is_to_be_fenced() -> None:
    assert diagnose_partition(held(known(age_ms=40_000)), asked()).verdict is Verdict.FENCE
    # Coordinators look every 10 s.
    assert diagnose_partition(held(known(age_ms=12_000)), asked()).verdict is Verdict.WAIT


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, -300_000, -1_000, 0, 1_000, 300_000, HOUR_MS])
def test_verdict_is_that_of_the_coordinators_clock_however_far_it_is_from_ours(ahead_ms: int) -> None:
    """A transaction of one second is waited for, and one that its coordinator forgot is fenced, at any distance."""
    clock = ClockOffset(least_ms=-ahead_ms - 200, most_ms=-ahead_ms + 200, measured_ms=NOW_MS)

    def found(*, age_ms: int, timeout_ms: int = 60_000) -> Diagnosis:
        stamped = known(age_ms=age_ms - ahead_ms, timeout_ms=timeout_ms, clock=clock)
        return diagnose_partition(held(stamped), asked())

    young = found(age_ms=1_000)
    assert (young.verdict, len(young.commands)) == (Verdict.WAIT, 1)
    assert young.until_ms == NOW_MS + 59_000
    assert "ongoing for 0.8 s" in young.links[2].sentence
    assert found(age_ms=95_000).verdict is Verdict.FENCE
    assert found(age_ms=5_000, timeout_ms=900_000).verdict is Verdict.FENCE
    assert found(age_ms=890_000, timeout_ms=900_000).verdict is Verdict.WAIT


@pytest.mark.parametrize("age_ms", [-HOUR_MS, 1_000, 301_000, HOUR_MS])
@pytest.mark.parametrize(("timeout_ms", "verdict"), [(60_000, Verdict.WAIT), (900_000, Verdict.CANNOT_TELL)])
def test_without_the_coordinators_clock_nothing_is_to_be_fenced(age_ms: int, timeout_ms: int, verdict: Verdict) -> None:
    found = diagnose_partition(held(known(age_ms=age_ms, timeout_ms=timeout_ms, clock=None)), asked())
    assert found.verdict is verdict
    assert not any("fence" in line for line in found.commands)
    assert found.until_ms is None
    assert "the clock of broker 1 is not measured" in found.advice
    assert not re.search(r"\d (s|min|h) ago", as_text(found))


def test_clock_that_the_server_measured_stands_in_for_the_looks_own() -> None:
    behind = ClockOffset(least_ms=299_900, most_ms=300_100, measured_ms=NOW_MS)
    facts = held(known(age_ms=301_000, timeout_ms=60_000, clock=None))
    assert diagnose_partition(facts, asked(clocks={1: behind})).verdict is Verdict.WAIT
    assert diagnose_partition(facts, asked(clocks={2: behind})).until_ms is None


def test_records_are_told_by_their_stamps_since_their_producers_have_clocks_of_their_own() -> None:
    text = as_text(diagnose_partition(held(known(clock=None)), asked()))
    assert "its newest record is stamped 22:14:53 UTC" in text


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_decided_transaction_waits_for_its_markers(state: str) -> None:
    found = diagnose_partition(held(known(state=state, producer_epoch=3)), asked())
    assert found.verdict is Verdict.WAIT
    assert "fencing would not help" in found.advice
    assert found.until_ms is None


@pytest.mark.parametrize(
    "said",
    [
        None,
        known(state="CompleteAbort", partitions=()),
        known(state="Empty", partitions=(), producer_epoch=3),
        # Its id goes on elsewhere: this partition is no part of what its coordinator will end.
        known(partitions=(("payments", 0),)),
    ],
    ids=["unknown producer id", "completed", "initialised anew", "open elsewhere"],
)
def test_transaction_that_no_coordinator_will_end_hangs(said: object) -> None:
    found = diagnose_partition(held(said), asked())  # type: ignore[arg-type]
    assert found.verdict is Verdict.END
    assert found.commands == (
        "fenceline end orders 0 --bootstrap-server b1:9092",
        "kafka-transactions.sh --bootstrap-server b1:9092 abort --topic orders --partition 0 --start-offset 10",
    )


def test_what_hangs_and_may_be_committed_is_not_simply_ended() -> None:
    found = diagnose_partition(held(known(state="CompleteCommit", producer_epoch=3, partitions=())), asked())
    assert found.verdict is Verdict.CANNOT_TELL
    assert "an abort marker would lose what its producer was told is committed" in found.advice
    assert found.links[-1].sentence.endswith("so that it may be committed")


@pytest.mark.parametrize("said", [None, known(state="CompleteCommit", partitions=())])
def test_transaction_that_ended_while_the_brokers_were_asked_does_not_hang(said: object) -> None:
    """The leader's first answer had it, the coordinator's later one did not: it may just have been committed."""
    found = diagnose_partition(held(said, ended_since=True), asked())  # type: ignore[arg-type]
    assert found.verdict is Verdict.UNSETTLED


def test_transaction_that_begins_later_than_readers_stop_is_not_taken_for_the_cause() -> None:
    assert diagnose_partition(held(known(), rows=(opened(start=12),)), asked()).verdict is Verdict.UNSETTLED


def test_first_of_several_is_the_one_that_holds() -> None:
    rows = (opened(producer_id=9, start=12), opened(start=10), opened(producer_id=8, start=11))
    found = diagnose_partition(held(known(), rows=rows), asked())
    assert "producer 4015" in found.links[1].sentence
    assert "2 other transactions open behind it" in found.links[1].sentence


def test_a_coordinator_that_does_not_answer_makes_nothing_hang() -> None:
    found = diagnose_partition(held(None, unanswered=(AWAY,)), asked())
    assert found.verdict is Verdict.CANNOT_TELL
    assert AWAY.sentence in [link.sentence for link in found.links]


def test_unknown_producer_is_doubted_while_the_journal_cannot_be_read() -> None:
    assert "may describe all transactional ids" in diagnose_partition(held(None, is_corroborated=False), asked()).advice
    assert "may describe" not in diagnose_partition(held(None), asked()).advice


def test_missing_permission_is_named() -> None:
    found = diagnose_partition(held(known(), rows=REFUSED), asked())
    assert found.verdict is Verdict.CANNOT_TELL
    assert found.advice == "Ask for READ on the topic of orders-0."
    no_ends = msgspec.structs.replace(held(known()), ends=REFUSED)
    assert diagnose_partition(no_ends, asked()).verdict is Verdict.CANNOT_TELL


def test_owner_that_is_alive_is_looked_at_first() -> None:
    fresh = {ID: Owner(name="instance 2, task 0 on w3", heartbeat_ms=NOW_MS - 900)}
    found = diagnose_partition(held(known(timeout_ms=900_000)), asked(owners=fresh))
    assert found.verdict is Verdict.OWNER
    assert "whose owner is instance 2, task 0 on w3, heard of 0.9 s ago" in [link.sentence for link in found.links]
    silent = {ID: Owner(name="instance 2, task 0 on w3", heartbeat_ms=NOW_MS - 6_000)}
    assert diagnose_partition(held(known(timeout_ms=900_000)), asked(owners=silent)).verdict is Verdict.FENCE
    assert "none of ours" in diagnose_partition(held(known()), asked(owners={})).links[-1].sentence


def test_odd_names_are_quoted_in_lines_to_paste() -> None:
    odd = msgspec.structs.replace(known(), transactional_id="it's; rm -rf /")
    found = diagnose_partition(held(odd), asked())
    assert found.commands[0].endswith("""--transactional-id 'it'"'"'s; rm -rf /'""")


def test_end_of_an_empty_gap_is_told_without_records() -> None:
    facts = msgspec.structs.replace(held(known()), waiting=None, ends=LogEnds(0, 10, 11))
    assert "1 offset waits." in diagnose_partition(facts, asked()).headline


def test_a_topic_tells_its_worst_partition_first() -> None:
    free = msgspec.structs.replace(read_through(held(None)), partition=1)
    found = explain_topic("orders", [free, held(None)], asked())
    assert (found.verdict, [one.subject for one in found.partitions]) == (Verdict.END, ["orders-0", "orders-1"])
    assert found.headline == "Readers of orders wait in 1 of 2 partitions, worst in orders-0."
    assert explain_topic("orders", [free], asked()).headline.startswith("Nothing waits in orders")


def test_the_chain_is_pasted_as_text() -> None:
    text = as_text(diagnose_partition(held(known()), asked())).splitlines()
    assert [line.split()[0] for line in text] == [
        "Readers",
        "because",
        "because",
        "which",
        "wait:",
        "kafka-transactions.sh",
    ]
    assert text[1].endswith(" UTC)")
