"""A small world of instances, partitions and ids, in which every order of events can be walked through.

Two instances read two partitions. Of a process it is only kept what it could still do: which partitions it has an
input of in hand (fresh, or committed past by somebody else meanwhile), whether it fell asleep with its offsets sent,
and whether its incarnation of an id is the newest. The control plane is the real one: `decide`, with looks made of it.

What Kafka does is modelled as docs/loop.md and KIP-447 have it:
- an init of an id ends whoever was at it, and what it has open;
- offsets of a member that has left are refused, unless it sends none of its generation (GROUP_ONLY);
- offsets that are sent are committed by whoever still has the newest incarnation, member or not;
- who takes a partition waits for pending offsets; a client without a generation may be an old one, which does not.
A process that sleeps past its session may wake at any time and do what it still can; nobody is told before it has.
"""

from __future__ import annotations

from typing import NamedTuple

from app.core.runs.mode import Mode
from app.products.migrations.migration import MigrationStepKind, Stage

ORDINALS = PARTITIONS = range(2)
FENCE = (-1, -1)
NOBODY = (-2, -2)
A, B, C = Mode.GROUP_ONLY, Mode.GENERATION, Mode.V2
NONE, FRESH, STALE, SENT, SENT_STALE = range(5)
"""Of a partition: not held; an input in hand; the same, but it was committed by somebody else; and offsets sent."""
Owner = tuple[int, int]


class WrongError(Exception):
    """The world reached a forbidden state."""


class Process(NamedTuple):
    """is_current: of the current lease. is_asleep: frozen past its session; it has left the group."""

    ordinal: int
    lease: int
    mode: Mode
    is_current: bool = True
    is_asleep: bool = False
    holds: tuple[int, ...] = (NONE, NONE)

    @property
    def key(self) -> Owner:
        return self.ordinal, self.lease


class View(NamedTuple):
    """What the journals and heartbeats said at the last look: owners of ids, whether one is open, what tasks hold."""

    owners: tuple[Owner, ...]
    is_open: tuple[bool, ...]
    held: tuple[tuple[Owner, tuple[int, ...]], ...]


class World(NamedTuple):
    """owners: of the partitions' ids, then of the tasks' ids. step: of a bounce the ordinal and whether it is replaced;
    of a fence the ids that are done. is_old: a lease has ended since the view. is_stalled: the view stays as it is.
    freezes, kills, returns, stalls, cuts: how many more of them there may be. A cut takes the heartbeats of a process
        away and nothing else: its lease is called lost, and it works on.
    """

    processes: tuple[Process, ...]
    owners: tuple[Owner, ...]
    targets: tuple[Mode, ...]
    stage: Stage
    goal: Mode
    view: View
    is_old: bool = False
    step: tuple[int, bool] | tuple[int, ...] | None = None
    kind: MigrationStepKind | None = None
    fenced: frozenset[int] = frozenset()
    freezes: int = 0
    kills: int = 0
    returns: int = 0
    stalls: int = 0
    cuts: int = 0
    is_stalled: bool = False
    back_to: Mode = A

    def current(self, ordinal: int) -> Process | None:
        return next((one for one in self.processes if one.is_current and one.ordinal == ordinal), None)

    def id_of(self, process: Process, partition: int) -> int:
        return 2 + process.ordinal if process.mode is C else partition

    def has_newest(self, process: Process, partition: int) -> bool:
        return self.owners[self.id_of(process, partition)] == process.key

    def with_process(self, before: Process, after: Process | None) -> World:
        others = tuple(one for one in self.processes if one is not before)
        return self._replace(processes=others if after is None else (*others, after))

    def with_owner(self, index: int, owner: Owner) -> World:
        return self._replace(owners=(*self.owners[:index], owner, *self.owners[index + 1 :]))


def world(
    modes: tuple[Mode, Mode],
    goal: Mode,
    *,
    freezes: int = 0,
    kills: int = 0,
    returns: int = 0,
    stalls: int = 0,
    cuts: int = 0,
    back_to: Mode = A,
    targets: tuple[Mode, Mode] | None = None,
) -> World:
    """targets: the instances' initial targets, as a migration that was aborted leaves them."""
    processes = tuple(Process(n, 0, mode) for n, mode in enumerate(modes))
    owners = (NOBODY, NOBODY, *((n, 0) if mode is C else NOBODY for n, mode in enumerate(modes)))
    stage = Stage.FIRST_BOUNCE if goal is C else Stage.BACK_TO_GENERATION
    start = World(
        processes,
        owners,
        targets or modes,
        stage,
        goal,
        View(owners, (False,) * 4, ()),
        freezes=freezes,
        kills=kills,
        returns=returns,
        stalls=stalls,
        cuts=cuts,
        back_to=back_to,
    )
    return looked(start)


def looked(world: World) -> World:
    """Return the world with an up-to-date view."""
    is_open = tuple(
        any(
            one.holds[p] >= SENT and world.id_of(one, p) == index and owner == one.key
            for one in world.processes
            for p in PARTITIONS
        )
        for index, owner in enumerate(world.owners)
    )
    held = tuple(
        sorted((one.key, held_by(world, one)) for one in world.processes if one.is_current and not one.is_asleep)
    )
    return world._replace(view=View(world.owners, is_open, held), is_old=False)


def held_by(world: World, process: Process) -> tuple[int, ...]:
    held = {world.id_of(process, p) for p in PARTITIONS if process.holds[p] and world.has_newest(process, p)}
    return tuple(sorted(held))
