"""Drills of each kind, in every state and with every verdict: the address of the page that shows each."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.runs.run import Run
from app.core.wire.drill import ActStep
from app.products.drills import judging
from app.products.drills.drill import Drill, DrillKind, Target
from app.products.drills.store import DrillStore
from app.products.drills.timeline import EntryKind, FencingLook
from tests.products.drills.told import CLEAN, a_drill, at, frozen_and_thawed, hear, look, until_well
from tests.support.control_plane import ControlPlane
from tests.support.longest_names import LONG_HOST, LONG_TOKEN_NAME, LONG_TOPIC, long_pipeline

DRILLED = "drilled"
LONGEST = long_pipeline("drilled-")
_FREEZE, _KILL, _SERVER = DrillKind.FREEZE_INSTANCE, DrillKind.KILL_INSTANCE, DrillKind.FREEZE_SERVER
_WRONG = AuditFigures(audit_id="a1", read=500, expected=400, lost=3, duplicated=1)


async def add_drills(plane: ControlPlane) -> Mapping[str, str]:
    """Pipelines without a drill, and of one every drill that is over or waits for its audit."""
    await plane.pipeline("stands-still", allows_drills=True)
    await plane.running("not-to-be-drilled")
    await plane.running("not-drilled-yet", instances=2, allows_drills=True)
    run = await plane.running(DRILLED, instances=2, allows_drills=True)
    longest = await plane.running(LONGEST, instances=2, allows_drills=True, source_topics=(LONG_TOPIC,))
    found = {
        "drills of what does not run": "/pipelines/stands-still/drills",
        "drills that are not allowed": "/pipelines/not-to-be-drilled/drills",
        "no drill yet": "/pipelines/not-drilled-yet/drills",
        "drills with a history": f"/pipelines/{DRILLED}/drills",
        "drills, long names": f"/pipelines/{LONGEST}/drills",
        "drill, long names": await add_drill(plane, longest, _longest()),
    }
    for what, made in _settled().items():
        found[f"drill, {what}"] = await add_drill(plane, run, made)
    return found


async def add_drill(plane: ControlPlane, run: Run, made: Drill) -> str:
    """Its address. The database takes one disturbing drill of a pipeline, ordered to recovering, at a time."""
    added = replace(made, id=str(uuid.uuid4()), pipeline=run.pipeline, run_id=run.id)
    async with plane.uow() as uow:
        await uow.of(DrillStore).add(added)
        await uow.commit()
    return f"/drills/{added.id}"


async def end_drill(plane: ControlPlane, address: str) -> None:
    """End its present drill, so that another one may be added."""
    async with plane.uow() as uow:
        drill = await uow.of(DrillStore).get(address.removeprefix("/drills/"))
        stopped = judging.stop(drill, by="anna", now=at(60))
        await uow.of(DrillStore).save(judging.advance(stopped, now=at(60), run_is_live=True))
        await uow.commit()


def disturbing() -> Mapping[str, Drill]:
    """Those that are at it."""
    return {
        "freeze ordered": a_drill(_FREEZE),
        "kill ordered": a_drill(_KILL, tasks=2),
        "server ordered": a_drill(_SERVER),
        "freeze underway": _frozen(),
        "freeze underway, being stopped": judging.stop(_frozen(), by="anna", now=at(3)),
        "kill underway": _killed(),
        "server underway": _server_frozen(),
        "recovering": judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True),
    }


def _settled() -> dict[str, Drill]:
    recovered = until_well(judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True))
    fenced = FencingLook(id=str(uuid.uuid4()), at=at(9), sentence="the group fenced fl.t.flights.0.0: a takeover")
    seen = judging.see(recovered, look(25, committed=(250, 250), generation=7, epoch="7:3", fencings=(fenced,)))
    killed = until_well(
        judging.advance(
            judging.see(_killed(), look(9, committed=(90, 90), generation=6, epoch="7:2", attempt=1)),
            now=at(9),
            run_is_live=True,
        ),
        begin=10.0,
        attempt=1,
    )
    return {
        "auditing": recovered,
        "freeze survived": judging.conclude(replace(seen, audit_id=str(uuid.uuid4())), CLEAN, no_audit="", now=at(60)),
        "kill survived": judging.conclude(killed, CLEAN, no_audit="", now=at(60)),
        "server survived": judging.conclude(_server_back(), CLEAN, no_audit="", now=at(60)),
        "not survived": judging.conclude(recovered, _WRONG, no_audit="", now=at(60)),
        "not audited": judging.conclude(recovered, None, no_audit="the audit failed: out of memory", now=at(60)),
        "stopped": judging.stop(a_drill(_KILL), by="anna", now=at(1)),
        "not begun": judging.advance(a_drill(), now=at(20), run_is_live=True),
    }


def _frozen() -> Drill:
    drill = judging.see(a_drill(), look(0.0, committed=(10, 10)))
    return hear(hear(drill, ActStep.CLAIMED, 1.0), ActStep.FROZEN, 1.1)


def _killed() -> Drill:
    drill = judging.see(a_drill(_KILL), look(0.0, committed=(10, 10)))
    return hear(drill, ActStep.CLAIMED, 1.0)


def _server_frozen() -> Drill:
    drill = judging.see(a_drill(_SERVER), look(0.0, committed=(10, 10)))
    target = Target(host="s1", pid=1, since=at(3))
    drill = judging.hear(replace(drill, targets=(target,)), target, ActStep.CLAIMED, now=at(3))
    return judging.hear(drill, drill.targets[0], ActStep.FROZEN, now=at(3))


def _server_back() -> Drill:
    drill = _server_frozen()
    drill = judging.hear(drill, drill.targets[0], ActStep.THAWED, now=at(18))
    drill = judging.see(drill, look(18.5, committed=(185, 185)))
    return until_well(judging.advance(drill, now=at(18.5), run_is_live=True), begin=19.0)


def _longest() -> Drill:
    drill = frozen_and_thawed()
    targets = tuple(replace(one, host=LONG_HOST, message="frozen again by hand: " + "x" * 120) for one in drill.targets)
    drill = replace(drill, targets=targets, ordered_by=LONG_TOKEN_NAME, why="w" * 400)
    drill = judging.said(
        drill,
        EntryKind.RECORDS,
        f"{LONG_TOPIC}-11 has no commits since offset 9,000,000,000",
        now=at(4),
    )
    drill = judging.said(drill, EntryKind.EPOCH, f"fl.t.{LONG_TOPIC}.0.0: producer:epoch 7:1 → 7:2", now=at(5))
    drill = until_well(judging.advance(drill, now=at(16.5), run_is_live=True))
    return judging.conclude(drill, _WRONG, no_audit="", now=at(60))
