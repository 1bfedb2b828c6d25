"""Every order of events: nothing is read before what is due is done, and there is always a way back to reading."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workers.loop.lane_state import TRANSITIONS, IllegalLaneTransitionError, LaneEvent, LaneState, LaneStep

Seen = list[tuple[LaneEvent, LaneState]]

_LONGEST = 7
_WAY_ON = {
    LaneStep.ASKING: LaneEvent.ALLOWED,
    LaneStep.INITIALISING: LaneEvent.INITIALISED,
    LaneStep.REWINDING: LaneEvent.REWOUND,
    LaneStep.RESTARTING: LaneEvent.RESTARTED,
}


def walks(length: int) -> Iterator[Seen]:
    """Every order of so many events that the table allows, each event with the state after it."""
    begun: list[tuple[LaneState, Seen]] = [(LaneState(), [])]
    while begun:
        state, seen = begun.pop()
        if len(seen) == length:
            yield seen
            continue
        for event in TRANSITIONS[state.step]:
            after = state.after(event)
            begun.append((after, [*seen, (event, after)]))


@pytest.fixture(scope="module")
def all_walks() -> list[Seen]:
    return list(walks(_LONGEST))


def since(walk: Seen, *events: LaneEvent) -> Iterator[Seen]:
    """The steps after each of these events in the walk."""
    for at, (event, _) in enumerate(walk):
        if event in events:
            yield walk[at + 1 :]


def until_step(walk: Seen, *steps: LaneStep) -> Seen | None:
    """The part of the walk up to the first of these steps; None if it does not come to one."""
    for at, (_, state) in enumerate(walk):
        if state.step in steps:
            return walk[: at + 1]
    return None


def test_walks_come_through_every_transition(all_walks: list[Seen]) -> None:
    taken = {(walk[at][1].step, walk[at + 1][0]) for walk in all_walks for at in range(len(walk) - 1)}
    assert taken == {(step, event) for step, events in TRANSITIONS.items() for event in events}


@pytest.mark.parametrize("step", LaneStep)
def test_event_that_a_step_does_not_know_is_refused(step: LaneStep) -> None:
    unknown = set(LaneEvent) - set(TRANSITIONS[step])
    assert unknown
    for event in unknown:
        with pytest.raises(IllegalLaneTransitionError):
            LaneState(step=step).after(event)


def test_nothing_is_initialised_after_a_fencing_without_a_new_answer(all_walks: list[Seen]) -> None:
    for walk in all_walks:
        for rest in since(walk, LaneEvent.FENCED):
            reached = until_step(rest, LaneStep.INITIALISING)
            assert reached is None or LaneEvent.ALLOWED in [event for event, _ in reached]


def test_state_knows_that_it_was_fenced_until_a_producer_is_initialised(all_walks: list[Seen]) -> None:
    for walk in all_walks:
        is_fenced = False
        for event, state in walk:
            is_fenced = (is_fenced or event is LaneEvent.FENCED) and event is not LaneEvent.INITIALISED
            assert state.is_fenced is is_fenced
            assert not is_fenced or state.must_ask


def test_positions_are_asked_for_after_the_init_only(all_walks: list[Seen]) -> None:
    """Rule 3: before it the answer could be that of an undecided transaction."""
    for walk in all_walks:
        for rest in since(walk, LaneEvent.PRODUCER_LOST, LaneEvent.FENCED):
            reached = until_step(rest, LaneStep.REWINDING, LaneStep.RESTARTING, LaneStep.READING)
            assert reached is None or reached[-1][0] is LaneEvent.INITIALISED


@pytest.mark.parametrize(
    ("due", "done"),
    [
        (LaneEvent.REWIND, {LaneEvent.REWOUND, LaneEvent.RESTARTED}),
        (LaneEvent.RESTART, {LaneEvent.RESTARTED}),
        (LaneEvent.UNCOMMITTED, {LaneEvent.RESTARTED}),
    ],
)
def test_due_steps_are_done_before_anything_is_read(
    all_walks: list[Seen], due: LaneEvent, done: set[LaneEvent]
) -> None:
    """However often the producer is lost meanwhile."""
    for walk in all_walks:
        for rest in since(walk, due):
            reached = until_step(rest, LaneStep.READING)
            assert reached is None or reached[-1][0] in done


def test_every_state_leads_back_to_reading(all_walks: list[Seen]) -> None:
    for state in {walk[-1][1] for walk in all_walks}:
        steps = 0
        while state.step is not LaneStep.READING:
            state, steps = state.after(_WAY_ON[state.step]), steps + 1
            assert steps <= 3, "ask, initialise, and one of rewind and restart"
