"""Correct tasks with real recorders, a server that misses what they tell, and never a contradiction."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from app.core.clusters.partition import Partition
from app.core.wire.offset_events import CheckpointOutcome, Event, PartitionLeaving, Teller, Telling, checkpoints_of
from app.products.offset_log.replay import replay
from app.products.offset_log.verdict import ContradictionKind, OffsetLogStanding, OffsetLogVerdict
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import GROWS_FOR_MS, OffsetRecorder

P = Partition("orders", 0)
KEPT = 4
LIMIT = 3
"""The limit of one report, so that several are needed."""


class Told:
    """The events of one task that the server has."""

    def __init__(self) -> None:
        self.events: dict[int, Event] = {}
        self.recorded = 0

    def copy(self) -> Told:
        copied = Told()
        copied.events, copied.recorded = dict(self.events), self.recorded
        return copied


class Simulated:
    """One task: what the loop does to its recorder, in the loop's order."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.ownership = Ownership()
        self.recorder = OffsetRecorder(self.ownership, kept=world.kept, now_ms=lambda: world.now_ms)
        self.position = 0
        self.has_begun = False
        self.is_open = False
        self.is_dead = False

    def take(self, generation: int) -> None:
        self.ownership.assigned([P])
        self.recorder.assigned([P], generation=generation)
        self.position, self.has_begun = self.world.committed, False

    def process(self, count: int) -> None:
        first, self.position = self.position, self.position + count
        self.recorder.stands_at({P: self.position})
        if not self.has_begun:
            self.has_begun = True
            self.recorder.begins(P, self.world.committed)
        self.recorder.add({P: self.position}, records=count, span=(first, self.position - 1))
        self.is_open = True

    def commit(self) -> None:
        if self.is_open:
            self.recorder.ended(CheckpointOutcome.COMMITTED)
            self.world.committed, self.is_open = self.position, False

    def abort(self) -> None:
        self.recorder.ended(CheckpointOutcome.ABORTED)
        self.position, self.is_open = self.world.committed, False
        if self.has_begun:
            self.recorder.positioned(P, self.position)

    def give_up(self) -> None:
        self.commit()
        self.ownership.given_up([P])
        self.recorder.given_up([P], PartitionLeaving.REVOKED)


class World:
    def __init__(self, *, kept: int = KEPT) -> None:
        self.kept = kept
        self.now_ms = 0
        self.committed = 0
        self.generation = 0
        self.owner: Simulated | None = None
        self.tasks: list[Simulated] = []
        self.server: dict[int, Told] = {}
        self.backup: dict[int, Told] = {}

    def task(self, dice: int) -> Simulated:
        living = [task for task in self.tasks if not task.is_dead]
        if len(living) < 2:
            living.append(Simulated(self, len(self.tasks)))
            self.tasks.append(living[-1])
        return living[dice % len(living)]

    def assign(self, task: Simulated) -> None:
        if self.owner is not None:
            self.owner.give_up()
        self.generation += 1
        self.owner = task
        task.take(self.generation)

    def tell(self, task: Simulated, *, is_answered: bool = True) -> None:
        report = task.recorder.untold(LIMIT)
        for one in report:
            told = self.server.setdefault(task.number, Told())
            told.recorded = one.recorded
            for event_ in one.events:
                known = told.events.get(event_.index)
                if known is None or checkpoints_of(known) < checkpoints_of(event_):
                    told.events[event_.index] = event_
        if is_answered:
            task.recorder.stored(report)

    def tell_all(self, task: Simulated) -> None:
        for _ in range(100):
            self.tell(task)
            if not task.recorder.untold(LIMIT):
                return
        raise AssertionError(task.recorder.untold(LIMIT))

    def restore(self) -> None:
        self.server = {number: told.copy() for number, told in self.backup.items()}
        for task in self.tasks:
            task.recorder.server_forgot()

    def take(self, name: str, dice: int) -> None:
        task = self.task(dice)
        if self.owner is None:
            self.assign(task)
        owner = self.owner
        assert owner is not None
        match name:
            case "assign" if task is not owner:
                self.assign(task)
            case "process":
                owner.process(1 + dice)
            case "commit" | "next" | "stored" | "back_up":
                if name == "next":
                    # One event covers no more than its time.
                    self.now_ms += GROWS_FOR_MS
                owner.process(1 + dice)
                owner.commit()
                if name in ("stored", "back_up"):
                    self.tell_all(owner)
                if name == "back_up":
                    self.backup = {number: told.copy() for number, told in self.server.items()}
            case "abort":
                owner.abort()
            case "tell":
                self.tell_all(task)
            case "tell_unanswered":
                self.tell(task, is_answered=False)
            case "kill":
                owner.is_dead, self.owner = True, None
            case "restore":
                self.restore()
            case _:
                pass

    def verdict(self) -> OffsetLogVerdict:
        """After all living ones have reported all they have."""
        for task in self.tasks:
            if not task.is_dead:
                if task is self.owner:
                    task.abort()
                self.tell_all(task)
        tellings = [
            Telling(
                teller=Teller(0, task.number, 0, 0, 0),
                events=tuple(self.server[task.number].events.values()),
                recorded=self.server[task.number].recorded,
                is_final=not task.is_dead,
            )
            for task in self.tasks
            if task.number in self.server
        ]
        is_unheard = any(task.is_dead and task.number not in self.server for task in self.tasks)
        return replay(tellings, unheard=("an init was not heard of",) if is_unheard else ())


GOOD = ("assign", "process", "commit", "commit", "abort", "tell", "tell", "tell_unanswered", "next")
BAD = (*GOOD, "kill", "back_up", "restore")
DROPPING = ("stored", "commit", "next", "next")
RESTORING = ("commit", "next", "stored", "back_up", "restore", "assign")
Steps = list[tuple[str, int]]


def steps_of(names: tuple[str, ...]) -> st.SearchStrategy[Steps]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 3)), min_size=10, max_size=50)


def played(steps: Steps, *, kept: int = KEPT) -> World:
    world = World(kept=kept)
    for name, dice in steps:
        world.take(name, dice)
    return world


@pytest.mark.parametrize("names", [BAD, DROPPING, RESTORING], ids=["all", "dropped", "restored"])
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_dropped_killed_or_restored_events_are_never_a_contradiction(
    names: tuple[str, ...], data: st.DataObject
) -> None:
    verdict = played(data.draw(steps_of(names))).verdict()
    event(verdict.standing)
    assert verdict.contradictions == ()


@given(steps_of(GOOD))
@settings(max_examples=300, deadline=None)
def test_complete_attempts_leave_nothing_unverified(steps: Steps) -> None:
    assert played(steps, kept=1000).verdict().standing is OffsetLogStanding.CONSISTENT


@given(steps_of(GOOD), steps_of(GOOD[:6]))
@settings(max_examples=200, deadline=None)
def test_batch_that_is_dropped_is_always_found(before: Steps, after: Steps) -> None:
    world = played(before, kept=1000)
    world.assign(world.task(0))
    owner = world.owner
    assert owner is not None
    owner.process(2)
    owner.commit()
    # Polled, and never processed: a buffer that was emptied, or a request of a stream that had ended.
    owner.position += 2
    owner.recorder.stands_at({P: owner.position})
    owner.process(2)
    owner.commit()
    for name, dice in after:
        world.take(name, dice)
    assert ContradictionKind.GAP in {found.kind for found in world.verdict().contradictions}
