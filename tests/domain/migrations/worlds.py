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

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import NamedTuple

from app.domain.migrations.decision import Begin, Complete, Decision, Enter, Finish, Patience, decide, settled_targets
from app.domain.migrations.gates import GATES, Gates
from app.domain.migrations.look import AuditNow, Held, IdNow, Incarnation, InstanceNow, Look, PreflightFacts, TaskNow
from app.domain.migrations.migration import Fenced, Migration, Stage, Step, StepKind
from app.domain.migrations.mode import Mode
from app.domain.runs.instance import InstanceState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDINALS = PARTITIONS = range(2)
FENCE = (-1, -1)
NOBODY = (-2, -2)
A, B, C = Mode.GROUP_ONLY, Mode.GENERATION, Mode.V2
NONE, FRESH, STALE, SENT, SENT_STALE = range(5)
"""Of a partition: not held; an input in hand; the same, but it was committed by somebody else; and offsets sent."""
_NOW_EPOCH, _PAST_EPOCH = 10, 9
_FOREVER = Patience(
    preflight=timedelta.max, bounce=timedelta.max, fence=timedelta.max, gate=timedelta.max, verify=timedelta.max
)
Owner = tuple[int, int]


class WrongError(Exception):
    """The world came to something that must never be."""


class Process(NamedTuple):
    """is_current: of the lease that counts. is_asleep: stopped past its session; it is in the group no more."""

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
    freezes, kills, returns, stalls: how many more of them there may be.
    """

    processes: tuple[Process, ...]
    owners: tuple[Owner, ...]
    targets: tuple[Mode, ...]
    stage: Stage
    goal: Mode
    view: View
    is_old: bool = False
    step: tuple[int, bool] | tuple[int, ...] | None = None
    kind: StepKind | None = None
    fenced: frozenset[int] = frozenset()
    freezes: int = 0
    kills: int = 0
    returns: int = 0
    stalls: int = 0
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
    back_to: Mode = A,
    targets: tuple[Mode, Mode] | None = None,
) -> World:
    """targets: where instances are on their way to from the beginning, as a migration that was aborted leaves them."""
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
        back_to=back_to,
    )
    return looked(start)


def looked(world: World) -> World:
    """With the view of this moment."""
    is_open = tuple(
        any(
            one.holds[p] >= SENT and world.id_of(one, p) == index and owner == one.key
            for one in world.processes
            for p in PARTITIONS
        )
        for index, owner in enumerate(world.owners)
    )
    held = tuple(
        sorted((one.key, _held_by(world, one)) for one in world.processes if one.is_current and not one.is_asleep)
    )
    return world._replace(view=View(world.owners, is_open, held), is_old=False)


def _held_by(world: World, process: Process) -> tuple[int, ...]:
    held = {world.id_of(process, p) for p in PARTITIONS if process.holds[p] and world.has_newest(process, p)}
    return tuple(sorted(held))


def look_of(world: World) -> Look:
    """What the control plane sees: rows as they are, journals and heartbeats as of the last look."""
    view = world.view
    held = dict(view.held)
    current = [world.current(n) for n in ORDINALS]
    return Look(
        at=NOW,
        read_at=NOW if not world.is_old else NOW - timedelta(seconds=2),
        changed_at=NOW - timedelta(seconds=1),
        ids={
            _name(index): IdNow(
                producer_id=1, producer_epoch=_NOW_EPOCH, is_open=view.is_open[index], was_aborted=owner == NOBODY
            )
            for index, owner in enumerate(view.owners)
        },
        partitions={f"in-{p}": _name(p) for p in PARTITIONS},
        task_ids=tuple(_name(2 + n) for n in ORDINALS),
        instances=tuple(
            InstanceNow(
                ordinal=n,
                lease=10,
                mode=world.targets[n] if one is None else one.mode,
                target=world.targets[n],
                state=InstanceState.PENDING if one is None else _state(one),
            )
            for n, one in zip(ORDINALS, current, strict=True)
        ),
        tasks=tuple(
            TaskNow(
                ordinal=one.ordinal,
                lease=10,
                task=0,
                attempt=0,
                host="w",
                pid=1,
                mode=one.mode,
                is_live=not one.is_asleep,
                heard_at=NOW if not world.is_old else NOW - timedelta(seconds=2),
                holds=tuple(_incarnation(view, index, one.key) for index in held.get(one.key, ())),
            )
            for one in current
            if one is not None
        ),
        ordinals=2,
        tasks_per_instance=1,
        group_state="Stable",
        held_back=(),
        audit=AuditNow(audit_id="a", is_through=True, expected=1),
        preflight=PreflightFacts(versions={}, rights_refused=(), transaction_timeout_ms=1, abort_sweep_ms=1),
    )


def migration_of(world: World) -> Migration:
    step = None
    if world.kind is StepKind.BOUNCE and world.step is not None:
        ordinal, is_replaced = world.step
        step = Step(
            number=1,
            stage=world.stage,
            kind=StepKind.BOUNCE,
            began_at=NOW,
            ordinal=ordinal,
            lease=9 if is_replaced else 10,
            to=world.targets[ordinal],
        )
    elif world.kind is StepKind.FENCE and world.step is not None:
        names = tuple(_name(index) for index in range(4))
        step = Step(number=1, stage=world.stage, kind=StepKind.FENCE, began_at=NOW, ids=names)
    done = set(world.step or ()) if world.kind is StepKind.FENCE else set[int]()
    return Migration(
        id="m",
        pipeline="p",
        run_id="r",
        cluster="c",
        group="g",
        goal=world.goal,
        stage=world.stage,
        stage_since=NOW,
        state_since=NOW,
        started_at=NOW,
        started_by="otto",
        steps=() if step is None else (step,),
        held=tuple(
            Held(
                ordinal=one.ordinal,
                lease=one.lease,
                mode=one.mode,
                ids=tuple(
                    _incarnation(world.view, index, one.key)
                    for index in sorted({world.id_of(one, p) for p in PARTITIONS if one.holds[p]})
                ),
            )
            for one in world.processes
            if not one.is_current
        ),
        fenced=tuple(
            Fenced(
                incarnation=_incarnation(world.view, index, FENCE),
                at=NOW - timedelta(seconds=1),
                step=1 if index in done else 0,
            )
            for index in sorted(world.fenced)
        ),
    )


def _incarnation(view: View, index: int, owner: Owner) -> Incarnation:
    """What this owner was given of the id: the newest, if the view has it as the owner."""
    return Incarnation(_name(index), 1, _NOW_EPOCH if view.owners[index] == owner else _PAST_EPOCH)


def _name(index: int) -> str:
    return f"p{index}" if index < 2 else f"t{index - 2}"


def _state(process: Process) -> InstanceState:
    return InstanceState.UNREACHABLE if process.is_asleep else InstanceState.RUNNING


Decisions = dict[World, Decision]


def successors(world: World, gates: Gates, decisions: Decisions) -> Iterator[tuple[str, World]]:
    """Everything that may happen next. Raises WrongError where something did that must not."""
    yield from _turn(world, gates, decisions)
    for process in world.processes:
        yield from _of_process(world, process)
    for ordinal in ORDINALS:
        if world.current(ordinal) is None:
            yield f"instance {ordinal} starts as {world.targets[ordinal]}", _started(world, ordinal)
    if world.returns and world.stage in (Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY) and world.goal is C:
        settled = settled_targets(look_of(world))
        turned = world._replace(
            targets=tuple(settled[n] for n in ORDINALS),
            stage=Stage.BACK_TO_GENERATION,
            goal=world.back_to,
            step=None,
            kind=None,
            returns=world.returns - 1,
        )
        yield f"back to {world.back_to}", turned
    if world.is_stalled:
        yield "the control plane sees again", world._replace(is_stalled=False)
    elif world.stalls:
        yield "the control plane sees no more", world._replace(is_stalled=True, stalls=world.stalls - 1)


def _decided(world: World, gates: Gates, decisions: Decisions) -> Decision:
    """What the control plane decides; the same for all worlds that it cannot tell apart."""
    as_seen = world._replace(
        processes=tuple(
            one._replace(holds=(NONE, NONE) if one.is_current else tuple(min(hold, FRESH) for hold in one.holds))
            for one in world.processes
        ),
        freezes=0,
        kills=0,
        returns=0,
        stalls=0,
        is_stalled=False,
    )
    if as_seen not in decisions:
        decisions[as_seen] = decide(migration_of(world), look_of(world), patience=_FOREVER, gates=gates)
    return decisions[as_seen]


def _turn(world: World, gates: Gates, decisions: Decisions) -> Iterator[tuple[str, World]]:
    if world.kind is StepKind.FENCE and world.step is not None:
        wanted = range(2) if world.goal is C else range(2, 4)
        for index in wanted:
            if index not in world.step:
                for one in world.processes:
                    if one.is_current and not one.is_asleep and one.key == world.owners[index]:
                        raise WrongError(f"{_name(index)} is fenced while {one.ordinal}/{one.lease} works under it")
                done = world.with_owner(index, FENCE)
                yield (
                    f"{_name(index)} is fenced",
                    done._replace(step=(*world.step, index), fenced=world.fenced | {index}, is_old=True),
                )
                return
        yield "the fence is done", world._replace(step=None, kind=None)
        return
    match _decided(world, gates, decisions):
        case Begin(step=step) if step.kind is StepKind.FENCE:
            yield "a fence begins", world._replace(kind=StepKind.FENCE, step=())
        case Begin(step=step) if step.ordinal is not None and step.to is not None:
            if any(one is None or one.is_asleep for one in map(world.current, ORDINALS)):
                raise WrongError(f"instance {step.ordinal} is taken away while another is away")
            targets = tuple(step.to if n == step.ordinal else mode for n, mode in enumerate(world.targets))
            yield (
                f"instance {step.ordinal} is bounced to {step.to}",
                world._replace(kind=StepKind.BOUNCE, step=(step.ordinal, False), targets=targets),
            )
        case Finish(step=step):
            _check_finished(world, step)
            yield f"the bounce of {step.ordinal} is done", world._replace(kind=None, step=None)
        case Enter(stage=stage):
            if stage is Stage.VERIFY:
                _check_moved(world)
            yield f"on to {stage}", world._replace(stage=stage)
        case Complete():
            _check_done(world)
        case _:
            pass


def _check_finished(world: World, step: Step) -> None:
    one = world.current(step.ordinal or 0)
    if one is None or one.mode is not world.targets[one.ordinal]:
        raise WrongError(f"the bounce of {step.ordinal} was called done before it runs as {step.to}")
    for old in world.processes:
        if old.ordinal == step.ordinal and not old.is_current:
            for owner, is_open in zip(world.view.owners, world.view.is_open, strict=True):
                if is_open and owner == old.key:
                    raise WrongError(
                        f"the bounce of {step.ordinal} was called done with something open of what it replaced"
                    )


def _check_moved(world: World) -> None:
    for ordinal in ORDINALS:
        one = world.current(ordinal)
        if (world.targets[ordinal] if one is None else one.mode) is not world.goal:
            raise WrongError(f"all stages were gone through, and instance {ordinal} is not {world.goal}")


def _check_done(world: World) -> None:
    given_up = range(2) if world.goal is C else range(2, 4)
    for index in given_up:
        if world.owners[index] not in (FENCE, NOBODY):
            raise WrongError(f"done, and {_name(index)} can still be written under")


def _started(world: World, ordinal: int) -> World:
    mode = world.targets[ordinal]
    lease = 1 + max((one.lease for one in world.processes if one.ordinal == ordinal), default=-1)
    process = Process(ordinal, lease, mode)
    began = world._replace(processes=(*world.processes, process))
    if mode is C:
        began = began.with_owner(2 + ordinal, process.key)
    if began.kind is StepKind.BOUNCE and began.step is not None and began.step[0] == ordinal:
        began = began._replace(step=(ordinal, True))
    return began


def _of_process(world: World, process: Process) -> Iterator[tuple[str, World]]:
    who = f"{process.ordinal}/{process.lease} ({process.mode})"
    for p in PARTITIONS:
        yield from _of_partition(world, process, p, f"{who}, in-{p}")
    if process.is_asleep:
        yield f"{who} is awake and finds out", _woken(world, process)
        if process.is_current:
            # The zombie lives on; only its lease is over.
            yield (
                f"{who} is lost",
                world.with_process(process, process._replace(is_current=False))._replace(is_old=True),
            )
    else:
        if process.is_current and process.mode is not world.targets[process.ordinal]:
            yield f"{who} drains", _gone(world, process)
        if world.freezes:
            for holds in product(*((hold, SENT) if hold == FRESH else (hold,) for hold in process.holds)):
                asleep = process._replace(is_asleep=True, holds=holds)
                sent = " with offsets sent" if SENT in holds else ""
                yield f"{who} sleeps{sent}", world.with_process(process, asleep)._replace(freezes=world.freezes - 1)
        if world.kills:
            yield f"{who} is killed", _gone(world, process)._replace(kills=world.kills - 1)


def _of_partition(world: World, process: Process, p: int, who: str) -> Iterator[tuple[str, World]]:
    hold = process.holds[p]
    if hold == NONE:
        if not process.is_asleep:
            yield from _taken(world, process, p, who)
        return
    if not world.has_newest(process, p):
        if not process.is_asleep:
            yield f"{who}: rebuilt", _rebuilt(world, process, p)
        return
    is_sent = hold in (SENT, SENT_STALE)
    if not process.is_asleep or is_sent or process.mode is A:
        if hold in (STALE, SENT_STALE):
            raise WrongError(f"{who}: an input is committed a second time")
        yield f"{who}: committed", _committed(world, process, p)
    if is_sent:
        yield f"{who}: timed out", world.with_owner(world.id_of(process, p), NOBODY)
    if not process.is_asleep:
        yield f"{who}: given up", world.with_process(process, _holding(process, p, NONE))


def _taken(world: World, process: Process, p: int, who: str) -> Iterator[tuple[str, World]]:
    members = [one for one in world.processes if not one.is_asleep]
    if any(one.holds[p] for one in members):
        return
    if process.mode is C:
        if not world.has_newest(process, p):
            yield f"{who}: rebuilt", _rebuilt(world, process, p)
            return
    else:
        world = world.with_owner(p, process.key)
    if process.mode is not A and any(one.holds[p] >= SENT and world.has_newest(one, p) for one in world.processes):
        return
    yield f"{who}: taken", world.with_process(process, _holding(process, p, FRESH))


def _committed(world: World, process: Process, p: int) -> World:
    past = {FRESH: STALE, SENT: SENT_STALE}
    processes = tuple(
        _holding(one, p, FRESH) if one is process else _holding(one, p, past.get(one.holds[p], one.holds[p]))
        for one in world.processes
    )
    return world._replace(processes=processes)


def _rebuilt(world: World, process: Process, p: int) -> World:
    """It has lost its id, and begins again from what is committed."""
    if process.mode is C:
        world = world.with_owner(2 + process.ordinal, process.key)
        return world.with_process(process, process._replace(holds=(NONE, NONE)))
    return world.with_process(process, _holding(process, p, NONE))


def _holding(process: Process, p: int, hold: int) -> Process:
    return process._replace(holds=(*process.holds[:p], hold, *process.holds[p + 1 :]))


def _woken(world: World, process: Process) -> World:
    if not process.is_current:
        return _gone(world, process)
    return world.with_process(process, process._replace(is_asleep=False, holds=(NONE, NONE)))


def _gone(world: World, process: Process) -> World:
    """No process any more: what it had open ends, and nobody is at its ids."""
    owners = tuple(NOBODY if owner == process.key else owner for owner in world.owners)
    left = world.with_process(process, None)._replace(owners=owners)
    return left._replace(is_old=True) if process.is_current else left


def canonical(world: World) -> World:
    """Worlds that differ in the numbers of leases only are one; a sleeper that can do nothing any more is none.

    The control plane looks at once, except while its view is stalled.
    """
    if not world.is_stalled:
        world = looked(world)
    kept = [one for one in world.processes if one.is_current or one.key in world.owners]
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
    """The same with the two partitions exchanged: nothing tells them apart."""
    swap = {0: 1, 1: 0, 2: 2, 3: 3}
    view = world.view
    owners, is_open = world.owners, view.is_open
    step = world.step
    if world.kind is StepKind.FENCE and step is not None:
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
    """The world after these events, each told by its beginning."""
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
    """wrong: how the world came to what must never be, the last line saying it; empty: it did nowhere."""

    worlds: int
    wrong: tuple[str, ...]
    stages: frozenset[Stage]
    is_completed: bool


def explore(start: World, gates: Gates = GATES, *, at_most: int = 2_000_000) -> Explored:
    """Every world that can be reached, breadth first; ends at the first that is wrong, by the shortest way there."""
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
                is_completed = isinstance(_decided(here, gates, decisions), Complete)
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
