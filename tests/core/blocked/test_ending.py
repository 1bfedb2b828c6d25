"""Objections against ending a transaction by hand, and its losses."""

from __future__ import annotations

import msgspec
import pytest

from app.core.blocked.ending import marker_epoch, plan_end, plan_fence
from app.core.blocked.facts import Refused, TaskOwner
from app.core.clocks.clock_offset import ClockOffset
from tests.core.blocked.answers import ID, NOW_MS, asked, held, known, opened, read_through

ALIVE = {ID: TaskOwner(name="instance 0, task 1", heartbeat_ms=NOW_MS - 100)}
AWAY = Refused("ListTransactions of broker 2", "KafkaTimeoutError")


def test_plan_of_a_fence_names_the_losses() -> None:
    plan = plan_fence(ID, known(age_ms=60_000, timeout_ms=900_000), asked())
    assert plan.refusal(force=False) is None
    assert "__consumer_offsets-12, orders-0" in plan.losses[0]
    assert "producer 4015 epoch 2 is fenced" in plan.losses[1]
    assert plan.command.endswith(f"forceTerminateTransaction --transactionalId {ID}")


def test_fencing_is_refused_while_the_owner_heartbeats_unless_forced() -> None:
    plan = plan_fence(ID, known(age_ms=60_000), asked(owners=ALIVE))
    assert "instance 0, task 1, is alive" in (plan.refusal(force=False) or "")
    assert plan.refusal(force=True) is None


def test_fence_of_a_young_transaction_is_refused() -> None:
    assert "began 2 s ago" in (plan_fence(ID, known(age_ms=2_000), asked()).refusal(force=False) or "")


@pytest.mark.parametrize("skew_ms", [-300_000, 300_000])
def test_age_of_a_young_transaction_is_by_the_coordinators_clock(skew_ms: int) -> None:
    """With a clock that is 300 s behind, every transaction looked old enough."""
    clock = ClockOffset(least_ms=skew_ms, most_ms=skew_ms, measured_ms=NOW_MS)
    young, old = (plan_fence(ID, known(age_ms=skew_ms + age, clock=clock), asked()) for age in (2_000, 60_000))
    assert "began 2 s ago" in (young.refusal(force=False) or "")
    assert old.refusal(force=False) is None


@pytest.mark.parametrize("age_ms", [-60_000, 2_000, 600_000])
def test_fencing_is_refused_while_the_age_is_not_known_unless_forced(age_ms: int) -> None:
    plan = plan_fence(ID, known(age_ms=age_ms, clock=None), asked())
    assert "the clock of broker 1 is not measured" in (plan.refusal(force=False) or "")
    assert plan.refusal(force=True) is None


def test_an_id_with_nothing_open_is_fenced_by_force_only() -> None:
    plan = plan_fence(ID, known(state="CompleteCommit"), asked())
    assert "no open transaction" in (plan.refusal(force=False) or "")
    assert plan.refusal(force=True) is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "does not exist"),
        (AWAY, "KafkaTimeoutError"),
        (known(state="PrepareAbort"), "is decided (PrepareAbort)"),
    ],
)
def test_impossible_fence_is_refused_even_by_force(said: object, why: str) -> None:
    """InitProducerId would create an id that does not exist."""
    assert why in (plan_fence(ID, said, asked()).refusal(force=True) or "")  # type: ignore[arg-type]


def test_ending_a_hanging_transaction_needs_no_force() -> None:
    plan = plan_end(held(None), None, asked())
    assert plan.refusal(force=False) is None
    assert plan.target == opened()
    assert "producer 4015 epoch 2, coordinator epoch 3" in plan.what
    assert "4 blocked records" in plan.losses[0]


def test_end_of_a_transaction_known_to_its_coordinator_is_refused_unless_forced() -> None:
    plan = plan_end(held(known()), None, asked())
    assert "fence that id instead" in (plan.refusal(force=False) or "")
    assert plan.refusal(force=True) is None


@pytest.mark.parametrize(
    "facts",
    [held(None, unanswered=(AWAY,)), held(None, is_corroborated=False)],
    ids=["a coordinator is silent", "ids may be hidden"],
)
def test_end_is_refused_while_a_coordinator_might_know_the_transaction(facts: object) -> None:
    assert plan_end(facts, None, asked()).refusal(force=False) is not None  # type: ignore[arg-type]


def test_ending_is_refused_while_the_owner_heartbeats() -> None:
    hanging = held(known(state="CompleteAbort", partitions=()))
    assert plan_end(hanging, None, asked()).refusal(force=False) is None
    assert "is alive" in (plan_end(hanging, None, asked(owners=ALIVE)).refusal(force=False) or "")


@pytest.mark.parametrize(
    ("state", "epoch", "is_in_doubt"),
    [
        ("CompleteCommit", 2, True),
        ("CompleteCommit", 3, True),
        ("CompleteCommit", 4, False),
        ("CompleteAbort", 2, False),
        ("Empty", 3, False),
    ],
)
def test_end_of_a_transaction_that_may_be_committed_is_refused_unless_forced(
    state: str, epoch: int, *, is_in_doubt: bool
) -> None:
    """opened() has epoch 2: with KIP-890 its own commit left the id at 3."""
    plan = plan_end(held(known(state=state, producer_epoch=epoch, partitions=())), None, asked())
    assert ("may be committed" in (plan.refusal(force=False) or "")) == is_in_doubt
    assert plan.refusal(force=True) is None


def test_end_without_an_open_transaction_is_impossible() -> None:
    for plan in (
        plan_end(held(None), 11, asked()),
        plan_end(held(None, ended_since=True), None, asked()),
        plan_end(read_through(held(None)), None, asked()),
    ):
        assert "no transaction" in (plan.refusal(force=True) or "")


def test_transaction_is_chosen_by_its_first_offset() -> None:
    later = opened(producer_id=9, start=12)
    assert plan_end(held(None, rows=(opened(), later)), 12, asked()).target == later


def test_marker_epoch_is_0_for_a_producer_without_markers() -> None:
    """Brokers refuse -1; 0 is never newer than another epoch."""
    assert marker_epoch(opened(coordinator_epoch=-1)) == 0
    assert marker_epoch(opened(coordinator_epoch=5)) == 5


def test_refusal_of_a_broker_makes_the_end_impossible() -> None:
    refused = Refused("DescribeProducers of orders-0", "TOPIC_AUTHORIZATION_FAILED", "READ on the topic of orders-0")
    assert "READ on" in (plan_end(held(None, rows=refused), None, asked()).impossible or "")
    no_ends = msgspec.structs.replace(held(None), ends=refused)
    assert "READ on" in (plan_end(no_ends, None, asked()).impossible or "")
