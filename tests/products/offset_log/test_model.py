"""Correct loops never contradict each other, also if events are lost; a loop with one fault is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from app.core.wire.offset_events import CheckpointOutcome
from app.products.offset_log.replay import replay
from app.products.offset_log.verdict import ContradictionKind, OffsetLogStanding
from tests.products.offset_log.model import Group, Loop

UNHEARD = ("an init was not heard of",)
HONEST = (
    "append",
    "assign",
    "poll",
    "poll",
    "commit",
    "commit",
    "abort",
    "delete",
    "leave",
    "freeze",
    "wake",
    "report",
)
LOSSY = (*HONEST, "kill", "kill_unheard", "unknown", "drop", "reset", "second")
FORGETFUL = (*HONEST, "unknown", "reset", "second", "forget", "make_anew")
Steps = list[tuple[str, int]]


def steps_of(names: tuple[str, ...]) -> st.SearchStrategy[Steps]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), min_size=5, max_size=60)


def take(group: Group, name: str, dice: int) -> None:
    """Take one step of the model, unless it is impossible now."""
    living = group.living()
    if len(living) < 3:
        living.append(group.start(group.free_ordinal()))
    loop = living[dice % len(living)]
    if group.owner is None and not loop.is_frozen:
        group.assign(loop)
    owner = group.owner
    if name in ("commit", "abort", "unknown") and owner is not None:
        group.append(2)
        group.poll(owner, dice)
    match name:
        case "append":
            group.append(dice)
        case "assign" if not loop.is_frozen and loop is not owner:
            group.assign(loop)
        case "poll" if owner is not None:
            group.poll(owner, dice)
        case "commit" if owner is not None:
            group.end(owner, CheckpointOutcome.COMMITTED)
        case "abort" if owner is not None:
            group.end(owner, CheckpointOutcome.ABORTED)
        case "unknown" if owner is not None:
            group.end(owner, CheckpointOutcome.UNKNOWN, has_landed=bool(dice % 2))
        case "delete":
            group.delete_before(dice * 3)
        case "leave" if not loop.is_frozen:
            group.leave(loop)
        case "freeze" if owner is not None:
            owner.is_frozen = True
        case "wake" if loop.is_frozen:
            group.wake(loop)
        case "report":
            loop.deliver()
        case "drop":
            del loop.waiting[:dice]
        case "kill":
            loop.is_dead = True
        case "kill_unheard" if not loop.delivered:
            loop.is_dead = True
            group.loops.remove(loop)
        case "second":
            group.start(loop.teller.ordinal)
        case "forget":
            group.forget(is_deleted=bool(dice % 2))
        case "make_anew":
            group.make_anew()
        case "reset":
            group.reset(min(dice, group.log_end))
        case _:
            pass


def played(steps: Steps, *, empty: frozenset[int] = frozenset()) -> Group:
    group = Group(empty=empty)
    for name, dice in steps:
        take(group, name, dice)
    return group


@given(steps_of(LOSSY), st.frozensets(st.integers(0, 60)))
@settings(max_examples=600, deadline=None)
def test_correct_loops_never_contradict_each_other(steps: Steps, empty: frozenset[int]) -> None:
    verdict = replay(played(steps, empty=empty).tellings(), unheard=UNHEARD)
    event(verdict.standing)
    assert verdict.contradictions == ()


@given(steps_of((*HONEST, "kill", "unknown", "drop", "reset")))
@settings(max_examples=400, deadline=None)
def test_lost_or_dropped_events_are_no_gap(steps: Steps) -> None:
    """Also if the coordinator knows no further attempt: each of these has reported."""
    assert replay(played(steps).tellings()).contradictions == ()


@given(steps_of(FORGETFUL), st.frozensets(st.integers(0, 60)))
@settings(max_examples=400, deadline=None)
def test_offsets_before_and_after_their_loss_are_not_compared(steps: Steps, empty: frozenset[int]) -> None:
    assert replay(played(steps, empty=empty).tellings()).contradictions == ()


@given(steps_of(HONEST), st.frozensets(st.integers(0, 60)))
@settings(max_examples=300, deadline=None)
def test_correct_loops_with_all_events_are_consistent(steps: Steps, empty: frozenset[int]) -> None:
    verdict = replay(played(steps, empty=empty).tellings())
    event(f"{min(3, verdict.figures.committed)} committed")
    assert verdict.standing is OffsetLogStanding.CONSISTENT


def skip(group: Group, owner: Loop, _other: Loop) -> None:
    """The polled records are dropped without a rewind."""
    group.poll(owner, 2)
    owner.forget()


def forget_to_go_back(group: Group, owner: Loop, _other: Loop) -> None:
    """An aborted checkpoint without a rewind."""
    group.poll(owner, 2)
    group.tell_checkpoint(owner, CheckpointOutcome.ABORTED)
    owner.forget()


def process_twice(_group: Group, owner: Loop, _other: Loop) -> None:
    """The client's position goes back without a seek."""
    assert owner.position is not None
    owner.position -= 1


def process_a_batch_twice(group: Group, owner: Loop, _other: Loop) -> None:
    group.poll(owner, 2)
    owner.polled += owner.polled
    group.end(owner, CheckpointOutcome.COMMITTED)


def commit_after_lost(group: Group, owner: Loop, other: Loop) -> None:
    """The loop continues with records polled before the loss, and the broker accepts the member's commit."""
    group.poll(owner, 2)
    began, under, position, polled = owner.began, owner.under, owner.position, list(owner.polled)
    owner.is_frozen = True
    group.assign(other)
    group.wake(owner)
    owner.began, owner.under, owner.position, owner.polled = began, under, position, polled
    group.tell_checkpoint(owner, CheckpointOutcome.COMMITTED)
    owner.forget()


def rewind(group: Group, owner: Loop, _other: Loop) -> None:
    """Rewind to an offset that an old coordinator returns."""
    assert group.committed is not None
    group.go_back(owner, to=group.committed - 1)


def begin_too_early(group: Group, _owner: Loop, other: Loop) -> None:
    """The next owner begins at an offset that an old coordinator returns."""
    assert group.committed is not None
    real, group.committed = group.committed, group.committed - 1
    # The commit at the revocation would be correct, so no checkpoint is open.
    group.assign(other)
    group.committed = max(real, group.committed)


def begin_too_late(group: Group, _owner: Loop, other: Loop) -> None:
    """The next owner begins after records that no task has processed."""
    assert group.committed is not None
    group.committed += 2
    group.assign(other)


MUTATIONS: list[tuple[Callable[[Group, Loop, Loop], None], frozenset[ContradictionKind]]] = [
    (skip, frozenset({ContradictionKind.GAP})),
    (forget_to_go_back, frozenset({ContradictionKind.GAP})),
    (process_twice, frozenset({ContradictionKind.OVERLAP})),
    (process_a_batch_twice, frozenset({ContradictionKind.OVERLAP})),
    (commit_after_lost, frozenset({ContradictionKind.WITHOUT_OWNERSHIP})),
    (rewind, frozenset({ContradictionKind.REWOUND, ContradictionKind.OVERLAP})),
    (begin_too_early, frozenset({ContradictionKind.REWOUND, ContradictionKind.OVERLAP})),
    (begin_too_late, frozenset({ContradictionKind.GAP})),
]


@pytest.mark.parametrize(("mutate", "kinds"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
@given(before=steps_of(HONEST[:7]), after=steps_of(HONEST[:7]), data=st.data())
@settings(max_examples=100, deadline=None)
def test_loop_with_one_fault_is_found(
    mutate: Callable[[Group, Loop, Loop], None],
    kinds: frozenset[ContradictionKind],
    before: Steps,
    after: Steps,
    data: st.DataObject,
) -> None:
    group = played(before)
    owner, other = group.start(group.free_ordinal()), group.start(group.free_ordinal())
    group.assign(owner)
    group.append(4)
    group.poll(owner, 3)
    group.end(owner, CheckpointOutcome.COMMITTED)
    group.append(4)
    assert replay(group.tellings()).standing is OffsetLogStanding.CONSISTENT
    mutate(group, owner, other)
    # The faulty loop continues, and commits.
    turning = group.owner
    assert turning is not None
    group.append(4)
    group.poll(turning, 3)
    group.end(turning, CheckpointOutcome.COMMITTED)
    for name, dice in after:
        take(group, name, dice)
    tellings = data.draw(st.permutations(group.tellings()))
    assert kinds & {found.kind for found in replay(tellings).contradictions}
