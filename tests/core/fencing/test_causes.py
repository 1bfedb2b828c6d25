"""Each cause of docs/fencing.md: on recorded journals if they have its scene, else on encoded ones."""

from __future__ import annotations

from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKind
from app.core.journals.transaction_state import TransactionStatus
from tests.core.fencing.coordinator import TIMEOUT_MS, Client, Coordinator
from tests.core.fencing.scenes import (
    before_kip_890,
    both_versions,
    epoch_event,
    events,
    felt,
    recorded_ids,
    records,
    word,
)

# Takeover


@both_versions
def test_takeover_of_an_open_transaction(version: str) -> None:
    live = recorded_ids(version)["taken-0"]
    event = epoch_event(live, 0)
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.TAKEOVER, Confidence.LIKELY)
    assert event.verdict.alternatives == (FencingCause.OWN_EPOCH,)
    assert records(event) == [
        (TransactionStatus.ONGOING, 0),
        (TransactionStatus.PREPARE_ABORT, 1),
        (TransactionStatus.COMPLETE_ABORT, 1),
        (TransactionStatus.EMPTY, 2),
        (TransactionStatus.ONGOING, 2),
    ]
    assert "epoch 0 → 2" in event.verdict.sentence
    assert "into orders.copied" in event.verdict.sentence


@both_versions
def test_takeover_is_certain_when_the_old_one_was_refused(version: str) -> None:
    live = recorded_ids(version)["taken-0"]
    verdict = epoch_event(live, 0, felt(live, word(), epoch=0)).verdict
    assert (verdict.cause, verdict.confidence, verdict.alternatives) == (FencingCause.TAKEOVER, Confidence.CERTAIN, ())
    assert "instance 0 task 1 attempt 2 on w1" in verdict.sentence


@before_kip_890
def test_takeover_whose_producer_has_not_written_may_be_an_operators(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=300)
    verdict = epoch_event(coordinator.live, 0).verdict
    assert verdict.cause is FencingCause.TAKEOVER
    assert FencingCause.OPERATOR_FENCE in verdict.alternatives
    coordinator.begin()
    assert FencingCause.OPERATOR_FENCE not in epoch_event(coordinator.live, 0).verdict.alternatives


def test_takeover_of_a_kip_890_client_needs_an_immediate_init() -> None:
    """After kill -9, a Kafka Streams thread with the same id returns while its transaction is open."""
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.init(after_ms=4_000, retry_ms=100)
    coordinator.begin()
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.TAKEOVER, Confidence.LIKELY)
    assert verdict.alternatives == (FencingCause.OWN_ABORT,)


# Timeout


@both_versions
def test_transaction_timeout(version: str) -> None:
    live = recorded_ids(version)["late-0"]
    event = epoch_event(live, 0)
    assert event.verdict.cause is FencingCause.TIMEOUT
    # Nobody has come since, so whether somebody's init ended it in the same moment is open.
    assert event.verdict.alternatives == (FencingCause.TAKEOVER, FencingCause.OPERATOR_FENCE)
    assert "its timeout of 1 s was over" in event.verdict.sentence
    assert [status for status, _ in records(event)][:2] == [TransactionStatus.ONGOING, TransactionStatus.PREPARE_ABORT]


@before_kip_890
def test_timeout_is_certain_after_a_later_init(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.time_out()
    coordinator.init(after_ms=20_000)
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.TIMEOUT, Confidence.CERTAIN)
    # The coordinator's own epoch was nobody's: the restart after it took nothing from anybody.
    assert list(events(coordinator.live)) == [(0, FencingKind.EPOCH)]


@before_kip_890
def test_takeover_after_the_timeout_was_over_may_be_either(client: Client) -> None:
    """Coordinators check timeouts every 10 s; an init may come before."""
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=TIMEOUT_MS + 1_000)
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.TIMEOUT, Confidence.LIKELY)
    assert FencingCause.TAKEOVER in verdict.alternatives


# The coordinator's abort


@before_kip_890
def test_coordinator_abort_without_a_reason_is_open(client: Client) -> None:
    """A client requested the id and did not repeat its request."""
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=100)
    coordinator.batches.pop()
    event = epoch_event(coordinator.live, 0)
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.COORDINATOR_ABORT, Confidence.OPEN)
    assert event.verdict.alternatives == (FencingCause.TAKEOVER, FencingCause.OPERATOR_FENCE, FencingCause.DEAD_TASK)


@before_kip_890
def test_abort_of_another_transaction_proves_nothing(client: Client) -> None:
    """Compaction left a begin and, at the next epoch, an abort of its own client."""
    coordinator = Coordinator(client)
    coordinator.begin()
    begun = len(coordinator.batches)
    coordinator.commit()
    coordinator.init()
    coordinator.begin()
    removed = len(coordinator.batches)
    coordinator.abort()
    del coordinator.batches[begun:removed]
    assert events(coordinator.live) == {}


# A zombie


@both_versions
def test_zombie_refused_corrects_a_clean_restart(version: str) -> None:
    live = recorded_ids(version)["taken-0"]
    assert epoch_event(live, 2).verdict.cause is FencingCause.CLEAN_RESTART
    verdict = epoch_event(live, 2, felt(live, word(), epoch=2)).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.ZOMBIE_REFUSED, Confidence.CERTAIN)


def test_refusal_without_a_journal_record_is_unexplained() -> None:
    live = Coordinator().live
    verdict = epoch_event(live, 0, felt(live, word(), epoch=0)).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.UNEXPLAINED, Confidence.OPEN)
