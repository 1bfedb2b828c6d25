"""Each cause of docs/fencing.md: on the recorded journals where they have its scene, else on the encoders' own."""

from __future__ import annotations

import msgspec
import pytest

from app.domain.fencing_events.cases import (
    case_of_word,
    joined,
    told,
)
from app.domain.fencing_events.evidence import (
    ClientWord,
    CommandVerb,
    CommandWord,
    Evidence,
)
from app.domain.fencing_events.fencing_event import Case, Cause, Confidence, FencingKey, FencingKind
from app.domain.fencing_events.steps import cases_of
from app.domain.journals.transaction_state import TransactionStatus
from app.domain.runs.task import EventKind
from tests.domain.fencing_events.coordinator import CLUSTER, ID, TIMEOUT_MS, Client, Coordinator
from tests.domain.fencing_events.scenes import (
    before_kip_890,
    both_versions,
    commanded,
    epoch_event,
    events,
    every_client,
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
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.TAKEOVER, Confidence.LIKELY)
    assert event.verdict.alternatives == (Cause.OWN_EPOCH,)
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
    assert (verdict.cause, verdict.confidence, verdict.alternatives) == (Cause.TAKEOVER, Confidence.CERTAIN, ())
    assert "instance 0 task 1 attempt 2 on w1" in verdict.sentence


@before_kip_890
def test_takeover_whose_producer_has_not_written_may_be_an_operators(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=300)
    verdict = epoch_event(coordinator.live, 0).verdict
    assert verdict.cause is Cause.TAKEOVER
    assert Cause.OPERATOR_FENCE in verdict.alternatives
    coordinator.begin()
    assert Cause.OPERATOR_FENCE not in epoch_event(coordinator.live, 0).verdict.alternatives


def test_takeover_of_a_kip_890_client_is_told_by_the_init_that_came_at_once() -> None:
    """After kill -9 a Kafka Streams thread of the same id comes back while its transaction is open."""
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.init(after_ms=4_000, retry_ms=100)
    coordinator.begin()
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.TAKEOVER, Confidence.LIKELY)
    assert verdict.alternatives == (Cause.OWN_ABORT,)


# Timeout


@both_versions
def test_transaction_timeout(version: str) -> None:
    live = recorded_ids(version)["late-0"]
    event = epoch_event(live, 0)
    assert event.verdict.cause is Cause.TIMEOUT
    # Nobody has come since, so whether somebody's init ended it in the same moment is open.
    assert event.verdict.alternatives == (Cause.TAKEOVER, Cause.OPERATOR_FENCE)
    assert "its timeout of 1.0 s was over" in event.verdict.sentence
    assert [status for status, _ in records(event)][:2] == [TransactionStatus.ONGOING, TransactionStatus.PREPARE_ABORT]


@before_kip_890
def test_timeout_is_certain_once_somebody_comes_later(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.time_out()
    coordinator.init(after_ms=20_000)
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.TIMEOUT, Confidence.CERTAIN)
    # The coordinator's own epoch was nobody's: the restart after it took nothing from anybody.
    assert list(events(coordinator.live)) == [(0, FencingKind.EPOCH)]


@before_kip_890
def test_takeover_after_the_timeout_was_over_may_be_either(client: Client) -> None:
    """Timed-out transactions are looked for every 10 s; an init may come before."""
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=TIMEOUT_MS + 1_000)
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.TIMEOUT, Confidence.LIKELY)
    assert Cause.TAKEOVER in verdict.alternatives


# Operator's fence


def fence_command(coordinator: Coordinator, *, answered: bool = True) -> CommandWord:
    return CommandWord(
        command_id=3,
        verb=CommandVerb.FENCE,
        at_ms=coordinator.now_ms,
        who="ann",
        why="stuck readers",
        producer_id=coordinator.producer_id if answered else None,
        producer_epoch=coordinator.epoch if answered else None,
    )


@every_client
@pytest.mark.parametrize("is_open", [True, False])
def test_operators_fence_is_known_by_our_command(client: Client, is_open: bool) -> None:
    coordinator = Coordinator(client)
    if is_open:
        coordinator.begin()
    coordinator.fence()
    command = fence_command(coordinator)
    event = epoch_event(coordinator.live, 0, commanded(command))
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.OPERATOR_FENCE, Confidence.CERTAIN)
    assert event.verdict.sentence.startswith(f"ann fenced {ID} (producer 7 epoch 0), because: stuck readers.")


def test_command_that_the_broker_answered_otherwise_is_not_held_against_a_takeover() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=100)
    coordinator.begin()
    other = CommandWord(
        command_id=3, verb=CommandVerb.FENCE, at_ms=coordinator.now_ms, who="ann", producer_id=7, producer_epoch=9
    )
    unanswered = fence_command(coordinator, answered=False)
    event = epoch_event(coordinator.live, 0, commanded(other), commanded(unanswered))
    assert event.verdict.cause is Cause.TAKEOVER


def test_command_without_an_answer_is_likely_while_nobody_writes() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.fence()
    event = epoch_event(coordinator.live, 0, commanded(fence_command(coordinator, answered=False)))
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.OPERATOR_FENCE, Confidence.LIKELY)


def test_answer_to_our_fence_is_proof_before_the_journal_is_read() -> None:
    live = Coordinator().live
    coordinator = Coordinator()
    coordinator.fence()
    event = epoch_event(live, 0, commanded(fence_command(coordinator)))
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.OPERATOR_FENCE, Confidence.CERTAIN)
    assert events(live, commanded(fence_command(coordinator, answered=False))) == {}


# The end of a dead task's transaction


def end_of_dead(coordinator: Coordinator, *, answered: bool = True) -> CommandWord:
    return CommandWord(
        command_id=4,
        verb=CommandVerb.END_DEAD,
        at_ms=coordinator.now_ms - 5,
        who="reconciler",
        why="its process is gone",
        producer_id=coordinator.producer_id if answered else None,
        producer_epoch=coordinator.epoch if answered else None,
    )


@before_kip_890
def test_end_of_a_dead_task_is_known_by_our_command(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.end_dead()
    command = end_of_dead(coordinator)
    event = epoch_event(coordinator.live, 0, commanded(command))
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.DEAD_TASK, Confidence.CERTAIN)
    assert event.verdict.sentence.startswith(
        f"The reconciler ended the transaction of {ID} (producer 7 epoch 0), because its process is gone. What it had "
        "written into delayed in 3.0 s was aborted"
    )
    coordinator.init(after_ms=4_000)
    coordinator.begin()
    later = epoch_event(coordinator.live, 0, commanded(command))
    assert (later.verdict.cause, later.verdict.confidence) == (Cause.DEAD_TASK, Confidence.CERTAIN)
    assert list(events(coordinator.live, commanded(command))) == [(0, FencingKind.EPOCH)]


def test_end_of_a_dead_task_is_told_before_the_journal_is_read() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    before = coordinator.live
    coordinator.end_dead()
    event = epoch_event(before, 0, commanded(end_of_dead(coordinator)))
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.DEAD_TASK, Confidence.CERTAIN)


def test_end_of_a_dead_task_beside_an_init_or_a_timeout_may_be_theirs() -> None:
    """Whoever asks after them is answered with the epoch that they left."""
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.end_dead(after_ms=TIMEOUT_MS + 1_000)
    command = end_of_dead(coordinator)
    coordinator.init(after_ms=300)
    verdict = epoch_event(coordinator.live, 0, commanded(command)).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.DEAD_TASK, Confidence.LIKELY)
    assert verdict.alternatives == (Cause.TAKEOVER, Cause.TIMEOUT)


def test_end_of_a_dead_task_without_an_answer_is_likely() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.end_dead()
    coordinator.init(after_ms=20_000)
    coordinator.begin()
    without = epoch_event(coordinator.live, 0).verdict
    assert (without.cause, without.alternatives) == (Cause.TAKEOVER, (Cause.DEAD_TASK, Cause.OWN_EPOCH))
    verdict = epoch_event(coordinator.live, 0, commanded(end_of_dead(coordinator, answered=False))).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.DEAD_TASK, Confidence.LIKELY)


def test_end_that_was_answered_otherwise_is_not_held_against_a_takeover() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=100)
    coordinator.begin()
    other = msgspec.structs.replace(end_of_dead(coordinator), producer_epoch=9)
    assert epoch_event(coordinator.live, 0, commanded(other)).verdict.cause is Cause.TAKEOVER


# The coordinator's abort


@before_kip_890
def test_coordinator_abort_without_a_reason_is_open(client: Client) -> None:
    """Somebody asked for the id and went away before coming again."""
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=100)
    coordinator.batches.pop()
    event = epoch_event(coordinator.live, 0)
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.COORDINATOR_ABORT, Confidence.OPEN)
    assert event.verdict.alternatives == (Cause.TAKEOVER, Cause.OPERATOR_FENCE, Cause.DEAD_TASK)


@before_kip_890
def test_abort_of_another_transaction_proves_nothing(client: Client) -> None:
    """Compaction left a begin and, at the next epoch, an abort that its own client asked for."""
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
    assert epoch_event(live, 2).verdict.cause is Cause.CLEAN_RESTART
    verdict = epoch_event(live, 2, felt(live, word(), epoch=2)).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.ZOMBIE_REFUSED, Confidence.CERTAIN)


def test_refusal_of_which_the_journal_shows_nothing_is_unexplained() -> None:
    live = Coordinator().live
    verdict = epoch_event(live, 0, felt(live, word(), epoch=0)).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.UNEXPLAINED, Confidence.OPEN)


# What is not fencing


@both_versions
def test_clean_restart_is_named_as_what_it_is(version: str) -> None:
    verdict = epoch_event(recorded_ids(version)["taken-0"], 2).verdict
    assert verdict.cause is Cause.CLEAN_RESTART
    assert not verdict.cause.is_fencing
    assert Cause.ZOMBIE_REFUSED in verdict.alternatives


@both_versions
def test_commits_and_own_aborts_are_no_events(version: str) -> None:
    ids = recorded_ids(version)
    # copier-0 is of KIP-890 in 4.3: an epoch with each commit.
    assert [events(ids[name]) for name in ("loop-0", "copier-0", "open-0")] == [{}, {}, {}]


def test_own_abort_of_a_kip_890_client_is_no_fencing() -> None:
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.abort()
    assert epoch_event(coordinator.live, 0).verdict.cause is Cause.OWN_ABORT
    coordinator.begin()
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.confidence) == (Cause.OWN_ABORT, Confidence.CERTAIN)


def test_timeout_of_a_kip_890_client_that_went_on_is_withdrawn() -> None:
    """Its late abort is answered with the epoch that the coordinator's had reached (EndTxn as a retry)."""
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.time_out()
    assert epoch_event(coordinator.live, 0).verdict.cause is Cause.TIMEOUT
    coordinator.begin()
    verdict = epoch_event(coordinator.live, 0).verdict
    assert (verdict.cause, verdict.alternatives) == (Cause.OWN_ABORT, (Cause.TIMEOUT,))


@before_kip_890
def test_next_producer_id_when_epochs_are_used_up(client: Client) -> None:
    coordinator = Coordinator(client, epoch=32_766)
    coordinator.init()
    assert coordinator.owner == (107, 0)
    verdict = epoch_event(coordinator.live, 32_766).verdict
    assert verdict.cause is Cause.EPOCHS_USED_UP
    assert not verdict.cause.is_fencing


def test_loss_that_compaction_hid_behind_the_next_producer_id_is_an_alternative() -> None:
    coordinator = Coordinator(epoch=32_766)
    coordinator.begin()
    coordinator.time_out()
    coordinator.init(after_ms=20_000)
    del coordinator.batches[1:-1]
    assert Cause.TIMEOUT in epoch_event(coordinator.live, 32_766).verdict.alternatives


def test_next_producer_id_with_a_kip_890_commit_is_no_event() -> None:
    coordinator = Coordinator(Client.TV_2, epoch=32_766)
    coordinator.begin()
    coordinator.commit()
    assert coordinator.owner == (107, 0)
    assert events(coordinator.live) == {}


# One story, one event


@both_versions
def test_broker_and_client_tell_one_story(version: str) -> None:
    """Fenced, superseded, and what the journal has: one event with all of it."""
    live = recorded_ids(version)["taken-0"]
    said = [felt(live, word(kind), epoch=0) for kind in (EventKind.FENCED, EventKind.SUPERSEDED, EventKind.FENCED)]
    found = [event for event in events(live, *said).values() if event.key.producer_epoch == 0]
    assert len(found) == 1
    kinds = [one.kind for one in found[0].evidence if isinstance(one, ClientWord)]
    assert kinds == [EventKind.FENCED, EventKind.SUPERSEDED]
    assert found[0].verdict.sentence.endswith(
        "The broker refused instance 0 task 1 attempt 2 on w1, and it ended as superseded."
    )


def test_what_a_task_did_then_is_no_event_by_itself() -> None:
    live = Coordinator().live
    assert events(live, felt(live, word(EventKind.SUPERSEDED), epoch=0)) == {}


def test_words_of_another_producer_do_not_join() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=100)
    live = coordinator.live
    cases = [*cases_of(live, kafka_cluster_id=CLUSTER), felt(live, word(), epoch=0, producer_id=8)]
    found = {case.key.producer_id: told(case) for case in joined(cases)}
    assert {producer: event and event.verdict.cause for producer, event in found.items()} == {
        7: Cause.TAKEOVER,
        8: Cause.UNEXPLAINED,
    }


def test_nobody_is_known_without_a_producer() -> None:
    assert (
        case_of_word(word(), kafka_cluster_id=CLUSTER, transactional_id=ID, producer_id=None, producer_epoch=0) is None
    )


def test_empty_case_proves_nothing() -> None:
    for kind in FencingKind:
        key = FencingKey(kafka_cluster_id=CLUSTER, transactional_id=ID, producer_id=7, producer_epoch=0, kind=kind)
        nothing: tuple[Evidence, ...] = ()
        assert told(Case(key, nothing)) is None
