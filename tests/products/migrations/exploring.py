"""Walk through a small world, breadth first, until every state is visited or an error is found."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from app.products.migrations.decision import Complete
from app.products.migrations.gates import GATES, Gates
from app.products.migrations.migration import MigrationStepKind, Stage
from tests.products.migrations.events import successors
from tests.products.migrations.seeing import Decisions, decided
from tests.products.migrations.worlds import FENCE, NOBODY, ORDINALS, Owner, View, World, WrongError, looked


def canonical(world: World) -> World:
    """Treat worlds that differ in lease numbers only as equal, and frozen processes without options as ended.

    The control plane updates its view at once, except while it is stalled.
    """
    if not world.is_stalled:
        world = looked(world)
    kept = [one for one in world.processes if one.is_current or not one.is_asleep or one.key in world.owners]
    numbers: dict[Owner, Owner] = {FENCE: FENCE, NOBODY: NOBODY}
    for ordinal in ORDINALS:
        leases = sorted(one.lease for one in kept if one.ordinal == ordinal)
        numbers |= {(ordinal, lease): (ordinal, index) for index, lease in enumerate(leases)}
    gone = (-3, -3)
    view = world.view
    renamed = world._replace(
        processes=tuple(sorted(one._replace(lease=numbers[one.key][1]) for one in kept)),
        owners=tuple(numbers[owner] for owner in world.owners),
        view=View(
            tuple(numbers.get(owner, gone) for owner in view.owners),
            view.is_open,
            tuple(sorted((numbers[key], ids) for key, ids in view.held if key in numbers)),
        ),
    )
    return min(renamed, _mirrored(renamed), key=_order)


def _order(world: World) -> tuple[object, ...]:
    return tuple(one.holds for one in world.processes), world.owners, world.view, world.step or (), sorted(world.fenced)


def _mirrored(world: World) -> World:
    """Return the same world with both partitions exchanged, which is equivalent."""
    swap = {0: 1, 1: 0, 2: 2, 3: 3}
    view = world.view
    owners, is_open = world.owners, view.is_open
    step = world.step
    if world.kind is MigrationStepKind.FENCE and step is not None:
        step = tuple(sorted(swap[index] for index in step))
    return world._replace(
        processes=tuple(one._replace(holds=one.holds[::-1]) for one in world.processes),
        owners=(owners[1], owners[0], *owners[2:]),
        view=View(
            (view.owners[1], view.owners[0], *view.owners[2:]),
            (is_open[1], is_open[0], *is_open[2:]),
            tuple((key, tuple(sorted(swap[index] for index in ids))) for key, ids in view.held),
        ),
        step=step,
        fenced=frozenset(swap[index] for index in world.fenced),
    )


def walked(start: World, *events: str) -> World:
    """Return the world after these events, each given by its beginning."""
    here = start
    for event in events:
        here = here if here.is_stalled else looked(here)
        found = list(successors(here, GATES, {}))
        there = [world for what, world in found if what.startswith(event)]
        if not there:
            raise AssertionError(f"{event!r} cannot happen: {[what for what, _ in found]}")
        here = there[0]
    return here


class Explored(NamedTuple):
    """wrong: the path to a forbidden state, which the last line names; empty: there is none."""

    worlds: int
    wrong: tuple[str, ...]
    stages: frozenset[Stage]
    is_completed: bool


def explore(start: World, gates: Gates = GATES, *, at_most: int = 2_000_000) -> Explored:
    """Visit every reachable world, breadth first; stop at the first error, on a shortest path."""
    first = canonical(start)
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    waiting = deque([first])
    stages: set[Stage] = set()
    decisions: Decisions = {}
    is_completed = False
    while waiting:
        here = waiting.popleft()
        stages.add(here.stage)
        try:
            if here.stage is Stage.VERIFY and not is_completed:
                is_completed = isinstance(decided(here, gates, decisions), Complete)
            for what, there in successors(here, gates, decisions):
                known = canonical(there)
                if known not in came_from:
                    came_from[known] = here, what
                    waiting.append(known)
        except WrongError as wrong:
            return Explored(len(came_from), (*_way(came_from, here), str(wrong)), frozenset(stages), is_completed)
        if len(came_from) > at_most:
            raise AssertionError(f"more than {at_most:,} worlds: the model does not end")
    return Explored(len(came_from), (), frozenset(stages), is_completed)


def _way(came_from: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    way: list[str] = []
    while (step := came_from[world]) is not None:
        world, what = step
        way.append(what)
    return way[::-1]
