"""Changes of an epoch or a producer id that are no fencing."""

from __future__ import annotations

from app.core.fencing.fencing_event import Confidence, FencingCause
from tests.core.fencing.coordinator import Client, Coordinator
from tests.core.fencing.scenes import before_kip_890, both_versions, epoch_event, events, recorded_ids


@both_versions
def test_clean_restart_is_no_fencing(version: str) -> None:
    verdict = epoch_event(recorded_ids(version)["taken-0"], 2).verdict
    assert verdict.cause is FencingCause.CLEAN_RESTART
    assert not verdict.cause.is_fencing
    assert FencingCause.ZOMBIE_REFUSED in verdict.alternatives


@both_versions
def test_commits_and_own_aborts_are_no_events(version: str) -> None:
    ids = recorded_ids(version)
    # copier-0 is of KIP-890 in 4.3: an epoch with each commit.
    assert [events(ids[name]) for name in ("loop-0", "copier-0", "open-0")] == [{}, {}, {}]


def test_own_abort_of_a_kip_890_client_is_no_fencing() -> None:
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.abort()
    assert epoch_event(coordinator.live, 0).verdict.cause is FencingCause.OWN_ABORT
    coordinator.begin()
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.OWN_ABORT, Confidence.CERTAIN)


def test_timeout_of_a_kip_890_client_that_continued_is_corrected() -> None:
    """Its late abort gets the epoch of the coordinator's abort as answer (EndTxn as a retry)."""
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.time_out()
    assert epoch_event(coordinator.live, 0).verdict.cause is FencingCause.TIMEOUT
    coordinator.begin()
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.alternatives) == (FencingCause.OWN_ABORT, (FencingCause.TIMEOUT,))


@before_kip_890
def test_next_producer_id_when_epochs_are_used_up(client: Client) -> None:
    coordinator = Coordinator(client, epoch=32_766)
    coordinator.init()
    assert coordinator.owner == (107, 0)
    verdict = epoch_event(coordinator.live, 32_766).verdict
    assert verdict.cause is FencingCause.EPOCHS_USED_UP
    assert not verdict.cause.is_fencing


def test_loss_hidden_by_compaction_is_an_alternative() -> None:
    coordinator = Coordinator(epoch=32_766)
    coordinator.begin()
    coordinator.time_out()
    coordinator.init(after_ms=20_000)
    del coordinator.batches[1:-1]
    assert FencingCause.TIMEOUT in epoch_event(coordinator.live, 32_766).verdict.alternatives


def test_next_producer_id_with_a_kip_890_commit_is_no_event() -> None:
    coordinator = Coordinator(Client.TV_2, epoch=32_766)
    coordinator.begin()
    coordinator.commit()
    assert coordinator.owner == (107, 0)
    assert events(coordinator.live) == {}
