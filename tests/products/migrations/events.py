"""The possible next events of a small world: of its processes, its ids and its control plane."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from app.products.migrations.decision import settled_targets
from app.products.migrations.gates import Gates
from app.products.migrations.migration import MigrationStepKind, Stage
from tests.products.migrations.seeing import Decisions, look_of, turn
from tests.products.migrations.worlds import (
    FRESH,
    NOBODY,
    NONE,
    ORDINALS,
    PARTITIONS,
    SENT,
    SENT_STALE,
    STALE,
    A,
    C,
    Process,
    World,
    WrongError,
)


def successors(world: World, gates: Gates, decisions: Decisions) -> Iterator[tuple[str, World]]:
    """Yield every possible next event. Raises WrongError after a forbidden one."""
    yield from turn(world, gates, decisions)
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


def _started(world: World, ordinal: int) -> World:
    mode = world.targets[ordinal]
    lease = 1 + max((one.lease for one in world.processes if one.ordinal == ordinal), default=-1)
    process = Process(ordinal, lease, mode)
    began = world._replace(processes=(*world.processes, process))
    if mode is C:
        began = began.with_owner(2 + ordinal, process.key)
    if began.kind is MigrationStepKind.BOUNCE and began.step is not None and began.step[0] == ordinal:
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
        return
    if not process.is_current:
        yield f"{who} is told that its lease is over", _gone(world, process)
    elif process.mode is not world.targets[process.ordinal]:
        yield f"{who} drains", _gone(world, process)
    if world.freezes:
        for holds in product(*((hold, SENT) if hold == FRESH else (hold,) for hold in process.holds)):
            asleep = process._replace(is_asleep=True, holds=holds)
            sent = " with offsets sent" if SENT in holds else ""
            yield f"{who} sleeps{sent}", world.with_process(process, asleep)._replace(freezes=world.freezes - 1)
    if world.kills and process.is_current:
        yield f"{who} is killed", _gone(world, process)._replace(kills=world.kills - 1)
    if world.cuts and process.is_current:
        cut = world.with_process(process, process._replace(is_current=False))
        yield f"{who} is cut off and lost", cut._replace(cuts=world.cuts - 1, is_old=True)


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
    """The process has lost its id, and starts again from the committed offsets."""
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
    """The process ends: its open transactions end, and its ids have no producer."""
    owners = tuple(NOBODY if owner == process.key else owner for owner in world.owners)
    left = world.with_process(process, None)._replace(owners=owners)
    return left._replace(is_old=True) if process.is_current else left
