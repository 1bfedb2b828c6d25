"""Fenceline's own commands: an operator's fence, and the end of a dead task's transaction."""

from __future__ import annotations

import msgspec
import pytest

from app.core.fencing.evidence import CommandVerb, CommandWord
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKind
from tests.core.fencing.coordinator import ID, TIMEOUT_MS, Client, Coordinator
from tests.core.fencing.scenes import before_kip_890, commanded, epoch_event, events, every_client


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
def test_operator_fence_is_recognised_by_its_command(client: Client, is_open: bool) -> None:
    coordinator = Coordinator(client)
    if is_open:
        coordinator.begin()
    coordinator.fence()
    command = fence_command(coordinator)
    event = epoch_event(coordinator.live, 0, commanded(command))
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.OPERATOR_FENCE, Confidence.CERTAIN)
    assert event.verdict.sentence.startswith(f"ann fenced {ID} (producer 7 epoch 0), because: stuck readers.")


def test_command_with_another_answer_does_not_explain_a_takeover() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=100)
    coordinator.begin()
    other = CommandWord(
        command_id=3, verb=CommandVerb.FENCE, at_ms=coordinator.now_ms, who="ann", producer_id=7, producer_epoch=9
    )
    unanswered = fence_command(coordinator, answered=False)
    event = epoch_event(coordinator.live, 0, commanded(other), commanded(unanswered))
    assert event.verdict.cause is FencingCause.TAKEOVER


def test_command_without_an_answer_is_likely_until_a_write() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.fence()
    event = epoch_event(coordinator.live, 0, commanded(fence_command(coordinator, answered=False)))
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.OPERATOR_FENCE, Confidence.LIKELY)


def test_answer_to_a_fence_is_proof_before_the_journal_is_read() -> None:
    live = Coordinator().live
    coordinator = Coordinator()
    coordinator.fence()
    event = epoch_event(live, 0, commanded(fence_command(coordinator)))
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.OPERATOR_FENCE, Confidence.CERTAIN)
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
def test_end_of_a_dead_task_is_recognised_by_its_command(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.end_dead()
    command = end_of_dead(coordinator)
    event = epoch_event(coordinator.live, 0, commanded(command))
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.CERTAIN)
    assert event.verdict.sentence.startswith(
        f"The reconciler ended the transaction of {ID} (producer 7 epoch 0), because its process is gone. Its "
        "transaction of 3 s into delayed was aborted"
    )
    coordinator.init(after_ms=4_000)
    coordinator.begin()
    later = epoch_event(coordinator.live, 0, commanded(command))
    assert (later.verdict.cause, later.verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.CERTAIN)
    assert list(events(coordinator.live, commanded(command))) == [(0, FencingKind.EPOCH)]


def test_end_of_a_dead_task_is_reported_before_the_journal_is_read() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    before = coordinator.live
    coordinator.end_dead()
    event = epoch_event(before, 0, commanded(end_of_dead(coordinator)))
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.CERTAIN)


def test_end_of_a_dead_task_near_an_init_or_timeout_has_alternatives() -> None:
    """A later request gets their epoch as answer."""
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.end_dead(after_ms=TIMEOUT_MS + 1_000)
    command = end_of_dead(coordinator)
    coordinator.init(after_ms=300)
    verdict = epoch_event(coordinator.live, 0, commanded(command)).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.LIKELY)
    assert verdict.alternatives == (FencingCause.TAKEOVER, FencingCause.TIMEOUT)


def test_end_of_a_dead_task_without_an_answer_is_likely() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.end_dead()
    coordinator.init(after_ms=20_000)
    coordinator.begin()
    without = epoch_event(coordinator.live, 0).verdict
    assert (without.cause, without.alternatives) == (
        FencingCause.TAKEOVER,
        (FencingCause.DEAD_TASK, FencingCause.OWN_EPOCH),
    )
    verdict = epoch_event(coordinator.live, 0, commanded(end_of_dead(coordinator, answered=False))).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.LIKELY)


def test_end_with_another_answer_does_not_explain_a_takeover() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=100)
    coordinator.begin()
    other = msgspec.structs.replace(end_of_dead(coordinator), producer_epoch=9)
    assert epoch_event(coordinator.live, 0, commanded(other)).verdict.cause is FencingCause.TAKEOVER
