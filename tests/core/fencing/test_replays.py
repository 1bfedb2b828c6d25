"""The events of a journal do not depend on the reading, and no event is false."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.fencing.cases import joined
from app.core.fencing.cause import judge_case
from app.core.fencing.fencing_event import Case, Confidence, FencingCause, FencingEvent
from app.core.fencing.steps import cases_of
from app.core.journals.record_batch import RecordBatch
from tests.core.fencing.coordinator import CLUSTER, Client, Coordinator, events_of, live_of

Act = Callable[[Coordinator], None]
_HOUR_MS = 3_600_000
_ABANDONED_ACTS = ("init", "fence")
_IDLE_ACTS = ("init", "begin", "fence")
_OPEN_ACTS = ("init", "commit", "abort", "time_out", "fence")


@st.composite
def journals(draw: st.DrawFn, jumps_ms: tuple[int, ...] = (0,)) -> Coordinator:
    """Up to twelve steps of an id; epochs may run out. `jumps_ms` may change the clock before each step."""
    coordinator = Coordinator(draw(st.sampled_from(Client)), epoch=draw(st.sampled_from([0, 5, 32_762])))
    for _ in range(draw(st.integers(1, 12))):
        coordinator.now_ms += draw(st.sampled_from(jumps_ms))
        acts = _OPEN_ACTS if coordinator.is_open else _IDLE_ACTS if coordinator.has_owner else _ABANDONED_ACTS
        act = draw(st.sampled_from(acts))
        wait_ms = draw(st.sampled_from([1, 300, 3_000, 9_000, 15_000]))
        if act == "time_out":
            coordinator.time_out(scanned_after_ms=wait_ms)
        else:
            getattr(coordinator, act)(after_ms=wait_ms)
    return coordinator


def assert_nothing_wrong(found: dict[tuple[int, int], FencingEvent], coordinator: Coordinator) -> None:
    """A certain cause is true; otherwise the truth is the cause or one of the alternatives."""
    for producer, event in found.items():
        verdict = event.verdict
        truth = coordinator.truth.get(producer)
        if truth is None:
            # Nobody was ended at this epoch: it is the living client's, or nobody's (a fence's own epoch).
            assert not verdict.cause.is_fencing, event
        elif verdict.confidence is Confidence.CERTAIN:
            assert verdict.cause is truth, event
        else:
            assert truth in (verdict.cause, *verdict.alternatives), event


@given(journals())
def test_complete_journal_shows_every_loss_with_its_cause(coordinator: Coordinator) -> None:
    found = coordinator.events()
    assert_nothing_wrong(found, coordinator)
    assert coordinator.robbed <= found.keys()


@given(journals(jumps_ms=(0, 800, -800, 9_000, -9_000, _HOUR_MS, -_HOUR_MS)))
def test_clock_skew_of_coordinators_proves_nothing_false(coordinator: Coordinator) -> None:
    """The id moves between brokers; each measures transactions of its predecessor by its own clock."""
    found = coordinator.events()
    assert_nothing_wrong(found, coordinator)
    assert coordinator.robbed <= found.keys()
    assert all(" -" not in event.verdict.sentence for event in found.values()), "a duration below zero"


@given(journals(), st.data())
def test_partial_journal_proves_nothing_false(coordinator: Coordinator, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(coordinator.batches)))
    end = data.draw(st.integers(begin, len(coordinator.batches)))
    cut = coordinator.batches[begin:end]
    found = events_of(cut)
    # A loss that lies beyond the end has not happened yet: the living owner's epoch is not ended by what is there.
    assert_nothing_wrong(found, coordinator)


@given(journals(), st.data())
def test_compacted_journal_proves_nothing_false(coordinator: Coordinator, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(coordinator.batches), max_size=len(coordinator.batches)))
    batches = [batch for batch, is_kept in zip(coordinator.batches, kept, strict=True) if is_kept]
    assert_nothing_wrong(events_of([*batches, coordinator.batches[-1]]), coordinator)


@given(journals(), st.data())
def test_second_reading_changes_nothing(coordinator: Coordinator, data: st.DataObject) -> None:
    again = data.draw(st.integers(0, len(coordinator.batches)))
    assert events_of([*coordinator.batches, *coordinator.batches[again:]]) == coordinator.events()


@given(journals(), st.randoms(use_true_random=False))
def test_servers_with_different_parts_in_any_order_agree(coordinator: Coordinator, chance: random.Random) -> None:
    """Each server reads every record, some from the middle on; their cases are joined in order of arrival."""
    seen = [
        case
        for begin in (0, chance.randrange(len(coordinator.batches)))
        for end in range(begin + 1, len(coordinator.batches) + 1)
        for case in _cases(coordinator.batches[begin:end])
    ]
    whole = coordinator.events()
    chance.shuffle(seen)
    together = {(case.key.producer_id, case.key.producer_epoch): judge_case(case) for case in joined(seen)}
    assert {name: event and event.verdict for name, event in together.items()} == {
        name: event.verdict for name, event in whole.items()
    }


def _cases(batches: list[RecordBatch]) -> list[Case]:
    return cases_of(live_of(batches), kafka_cluster_id=CLUSTER)


def test_false_cause_fails_the_properties() -> None:
    """The control of the properties above: a journal with another truth fails them."""
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.time_out()
    coordinator.init(after_ms=20_000)
    coordinator.truth = dict.fromkeys(coordinator.truth, FencingCause.OWN_ABORT)
    with pytest.raises(AssertionError):
        assert_nothing_wrong(coordinator.events(), coordinator)
