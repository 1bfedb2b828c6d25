"""Drills from handmade views of the pipeline and reports of its processes, second by second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.wire.drill import ActStep
from app.products.drills import judging
from app.products.drills.drill import Drill, DrillKind, DrillState, Target
from app.products.drills.planning import plan_of
from app.products.drills.timeline import DrillLook, FencingLook, PartitionLook, TaskLook
from tests.support.definitions import a_definition

START = datetime(2026, 1, 1, tzinfo=UTC)
CLEAN = AuditFigures(audit_id="a1", read=500, expected=400, lost=0, duplicated=0)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_drill(kind: DrillKind = DrillKind.FREEZE_INSTANCE, *, for_s: float = 15.0, tasks: int = 1) -> Drill:
    of_server = kind is DrillKind.FREEZE_SERVER
    plan = plan_of(a_definition(instances=2), kind, for_s=for_s, cluster="demo", others=1, own=tasks)
    targets = tuple(Target(task=task, attempt=0, host="w1", pid=40 + task, since=START) for task in range(tasks))
    return Drill(
        id="d1",
        pipeline="flights",
        run_id="r1",
        kind=kind,
        ordinal=None if of_server else 0,
        lease=None if of_server else 1,
        plan=replace(plan, tasks=2),
        state=DrillState.ORDERED,
        targets=() if of_server else targets,
        ordered_at=START,
        ordered_by="otto",
        why=None,
    )


def look(
    seconds: float,
    *,
    committed: tuple[int, int] = (0, 0),
    committed_at: tuple[float, float] | None = None,
    generation: int = 5,
    epoch: str = "7:1",
    attempt: int = 0,
    state: str = "running",
    fencings: tuple[FencingLook, ...] = (),
) -> DrillLook:
    """Return a view of two partitions, of which the drilled task owns the first."""
    when = committed_at or (seconds, seconds)
    return DrillLook(
        at=at(seconds),
        generation=generation,
        members=2,
        partitions={
            f"in-{number}": PartitionLook(committed=committed[number], committed_at=at(when[number]))
            for number in (0, 1)
        },
        epochs={"fl.t.flights.0.0": epoch},
        tasks={
            "0/0": TaskLook(attempt=attempt, lease=1, state=state, is_running=state == "running"),
            "1/0": TaskLook(attempt=0, lease=1, state="running", is_running=True),
        },
        fencings=fencings,
    )


def hear(drill: Drill, step: ActStep, seconds: float, *, task: int = 0, message: str = "") -> Drill:
    target = drill.target_of(task, 0)
    assert target is not None
    return judging.hear(drill, target, step, now=at(seconds), message=message)


def frozen_and_thawed() -> Drill:
    """Return a drill with a freeze from second 1 to 16; its partition has no commits from second 1 to 8.5."""
    drill = judging.see(a_drill(), look(0.0, committed=(10, 10)))
    drill = judging.see(drill, look(1.0, committed=(20, 20)))
    drill = hear(hear(drill, ActStep.CLAIMED, 1.0), ActStep.FROZEN, 1.1)
    for second in range(2, 9):
        seen = look(
            second, committed=(20, 10 * second), committed_at=(1.0, second), state="without heartbeats", generation=5
        )
        drill = judging.see(drill, seen)
    drill = judging.see(
        drill, look(9, committed=(90, 90), committed_at=(8.5, 9), state="without heartbeats", generation=6)
    )
    for second in range(10, 16):
        drill = judging.see(
            drill, look(second, committed=(10 * second, 10 * second), state="without heartbeats", generation=6)
        )
    drill = hear(drill, ActStep.THAWED, 16.1)
    return judging.see(drill, look(16.5, committed=(165, 165), generation=7, epoch="7:3"))


def until_well(drill: Drill, *, begin: float = 17.0, flows: bool = True, attempt: int = 0) -> Drill:
    for half in range(16):
        second = begin + half / 2
        drill = judging.see(
            drill,
            look(
                second,
                committed=(int(10 * second) if flows else 165, int(10 * second)),
                committed_at=(second if flows else 16.5, second),
                generation=7,
                epoch="7:3",
                attempt=attempt,
            ),
        )
        drill = judging.advance(drill, now=at(second), run_is_live=True)
    return drill


def sentences(drill: Drill) -> list[str]:
    return [entry.sentence for entry in drill.entries]
