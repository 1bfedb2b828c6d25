"""The control plane of a small world: its view, its decisions, and the forbidden results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.core.runs.client_id import TaskName
from app.core.runs.instance import InstanceState
from app.products.migrations.decision import Begin, Complete, Decision, Enter, EvidencePatience, Finish, decide
from app.products.migrations.gates import Gates
from app.products.migrations.look import (
    AuditNow,
    GroupNow,
    Held,
    IdNow,
    Incarnation,
    InstanceNow,
    MigrationLook,
    MigrationMember,
    PreflightFacts,
    TaskNow,
)
from app.products.migrations.migration import FencedId, GroupSeen, Migration, MigrationStep, MigrationStepKind, Stage
from tests.products.migrations.worlds import (
    FENCE,
    FRESH,
    NOBODY,
    NONE,
    ORDINALS,
    PARTITIONS,
    A,
    C,
    Owner,
    Process,
    View,
    World,
    WrongError,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_NOW_EPOCH, _PAST_EPOCH = 10, 9
_FOREVER = EvidencePatience(
    preflight=timedelta.max, bounce=timedelta.max, fence=timedelta.max, gate=timedelta.max, verify=timedelta.max
)
Decisions = dict[World, Decision]


def look_of(world: World) -> MigrationLook:
    """The control plane's view: present rows, with journals and heartbeats as of the newest check."""
    view = world.view
    held = dict(view.held)
    current = [world.current(n) for n in ORDINALS]
    return MigrationLook(
        at=NOW,
        read_at=NOW if not world.is_old else NOW - timedelta(seconds=2),
        changed_at=NOW - timedelta(seconds=1),
        ids={
            name_of(index): IdNow(
                producer_id=1, producer_epoch=_NOW_EPOCH, is_open=view.is_open[index], was_aborted=owner == NOBODY
            )
            for index, owner in enumerate(view.owners)
        },
        partitions={f"in-{p}": name_of(p) for p in PARTITIONS},
        task_ids=tuple(name_of(2 + n) for n in ORDINALS),
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
                generation=-1 if one.mode is A else 3,
                member_id=_member_id(one.key),
            )
            for one in current
            if one is not None
        ),
        ordinals=2,
        tasks_per_instance=1,
        group=_group(world),
        held_back={},
        audit=AuditNow(audit_id="a", is_through=True, expected=1),
        preflight=PreflightFacts(versions={}, rights_refused=(), transaction_timeout_ms=1, abort_sweep_ms=1),
    )


def migration_of(world: World) -> Migration:
    step = None
    if world.kind is MigrationStepKind.BOUNCE and world.step is not None:
        ordinal, is_replaced = world.step
        step = MigrationStep(
            number=1,
            stage=world.stage,
            kind=MigrationStepKind.BOUNCE,
            began_at=NOW,
            ordinal=ordinal,
            lease=9 if is_replaced else 10,
            to=world.targets[ordinal],
        )
    elif world.kind is MigrationStepKind.FENCE and world.step is not None:
        names = tuple(name_of(index) for index in range(4))
        step = MigrationStep(number=1, stage=world.stage, kind=MigrationStepKind.FENCE, began_at=NOW, ids=names)
    done = set(world.step or ()) if world.kind is MigrationStepKind.FENCE else set[int]()
    return Migration(
        id="m",
        pipeline="p",
        run_id="r",
        cluster="c",
        group="g",
        goal=world.goal,
        stage=world.stage,
        group_seen=GroupSeen(group=_group(world), since=NOW - timedelta(minutes=1), at=NOW),
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
            FencedId(
                incarnation=_incarnation(world.view, index, FENCE),
                at=NOW - timedelta(seconds=1),
                step=1 if index in done else 0,
            )
            for index in sorted(world.fenced)
        ),
    )


def _incarnation(view: View, index: int, owner: Owner) -> Incarnation:
    """Return the owner's incarnation: the newest, if the view has it as the owner."""
    return Incarnation(name_of(index), 1, _NOW_EPOCH if view.owners[index] == owner else _PAST_EPOCH)


def _group(world: World) -> GroupNow:
    """Ask the coordinator: every awake process is a member. Its id names its owner."""
    members = (
        MigrationMember(
            member_id=_member_id(one.key),
            client_id="fenceline-p",
            host="h",
            task=TaskName(ordinal=one.ordinal, task=0, lease=one.lease, attempt=0),
        )
        for one in world.processes
        if not one.is_asleep
    )
    return GroupNow(state="Stable", generation=3, members=tuple(members), asked_at=NOW)


def _member_id(key: Owner) -> str:
    return f"m{key[0]}.{key[1]}"


def name_of(index: int) -> str:
    return f"p{index}" if index < 2 else f"t{index - 2}"


def _state(process: Process) -> InstanceState:
    return InstanceState.UNREACHABLE if process.is_asleep else InstanceState.RUNNING


def decided(world: World, gates: Gates, decisions: Decisions) -> Decision:
    """Return the control plane's decision, which depends on its view only."""
    as_seen = world._replace(
        processes=tuple(
            one._replace(holds=(NONE, NONE) if one.is_current else tuple(min(hold, FRESH) for hold in one.holds))
            for one in world.processes
        ),
        freezes=0,
        kills=0,
        returns=0,
        stalls=0,
        cuts=0,
        is_stalled=False,
    )
    if as_seen not in decisions:
        decisions[as_seen] = decide(migration_of(world), look_of(world), patience=_FOREVER, gates=gates)
    return decisions[as_seen]


def turn(world: World, gates: Gates, decisions: Decisions) -> Iterator[tuple[str, World]]:
    if world.kind is MigrationStepKind.FENCE and world.step is not None:
        wanted = range(2) if world.goal is C else range(2, 4)
        for index in wanted:
            if index not in world.step:
                for one in world.processes:
                    if one.is_current and not one.is_asleep and one.key == world.owners[index]:
                        raise WrongError(f"{name_of(index)} is fenced while {one.ordinal}/{one.lease} works under it")
                done = world.with_owner(index, FENCE)
                yield (
                    f"{name_of(index)} is fenced",
                    done._replace(step=(*world.step, index), fenced=world.fenced | {index}, is_old=True),
                )
                return
        yield "the fence is done", world._replace(step=None, kind=None)
        return
    match decided(world, gates, decisions):
        case Begin(step=step) if step.kind is MigrationStepKind.FENCE:
            yield "a fence begins", world._replace(kind=MigrationStepKind.FENCE, step=())
        case Begin(step=step) if step.ordinal is not None and step.to is not None:
            if any(one is None or one.is_asleep for one in map(world.current, ORDINALS)):
                raise WrongError(f"instance {step.ordinal} is taken away while another is away")
            targets = tuple(step.to if n == step.ordinal else mode for n, mode in enumerate(world.targets))
            yield (
                f"instance {step.ordinal} is bounced to {step.to}",
                world._replace(kind=MigrationStepKind.BOUNCE, step=(step.ordinal, False), targets=targets),
            )
        case Finish(step=step):
            _check_finished(world, step)
            yield f"the bounce of {step.ordinal} is done", world._replace(kind=None, step=None)
        case Enter(stage=stage):
            if stage is Stage.VERIFY:
                _check_moved(world)
            if world.stage in (Stage.BACK_TO_GENERATION, Stage.BACK_TO_GROUP_ONLY):
                _check_held(world, stage)
            yield f"on to {stage}", world._replace(stage=stage)
        case Complete():
            _check_done(world)
        case _:
            pass


def _check_finished(world: World, step: MigrationStep) -> None:
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


def _check_held(world: World, stage: Stage) -> None:
    """Check the rollback, where each partition has a producer of its own again."""
    for index in range(2):
        owner = world.owners[index]
        if owner not in (FENCE, NOBODY) and not any(one.is_current and one.key == owner for one in world.processes):
            raise WrongError(f"on to {stage}, and {name_of(index)} is of nobody who runs")


def _check_done(world: World) -> None:
    given_up = range(2) if world.goal is C else range(2, 4)
    for index in given_up:
        if world.owners[index] not in (FENCE, NOBODY):
            raise WrongError(f"done, and {name_of(index)} can still be written under")
