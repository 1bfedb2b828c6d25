"""Drills of a query: the order goes to its driver, and a second driver replaces one that is frozen for long."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.asked_audits import AskedAudits
from app.core.asked_batches import AskedBatches
from app.core.audit_figures import AuditWord
from app.core.batch_figures import BatchFigures
from app.core.observing.service.observations import Observations
from app.core.runs.instance import InstanceState
from app.core.runs.run import Run
from app.core.runs.task import OutcomeKind
from app.core.wire.drill import ActStep
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError
from app.products.drills import judging
from app.products.drills.drill import Drill, DrillKind, DrillPlan, DrillState, DrillVerdict
from app.products.drills.loop import DrillWatch
from app.products.drills.query_planning import plan_of_query
from app.products.drills.service import drills
from app.products.drills.store import DrillStore
from tests.products.drills.test_service import get, order, report, stop
from tests.products.drills.told import a_drill, at
from tests.support.control_plane import ControlPlane, PlaneClock, task_heartbeat
from tests.support.definitions import a_definition
from tests.support.queries import QUERY

FREEZE, KILL, SERVER = DrillKind.FREEZE_INSTANCE, DrillKind.KILL_INSTANCE, DrillKind.FREEZE_SERVER
SESSION_S = 10.0


async def running(plane: ControlPlane) -> Run:
    """Return the run of a query of two writers."""
    run = await plane.running(transform=QUERY, tasks_per_instance=2, allows_drills=True)
    for writer in (0, 1):
        await plane.beat(task_heartbeat(run.id, task=writer))
    return run


async def seen(plane: ControlPlane, drill: Drill) -> Drill:
    async with plane.uow() as uow:
        after = await drills.replace_frozen_driver(uow, await drills.get_drill(uow, drill.id), now=plane.now)
        await uow.commit()
    return after


async def state_of(plane: ControlPlane, run: Run) -> InstanceState:
    return (await plane.get_run(run.id)).instances[0].state


async def test_the_driver_is_the_target_and_gets_the_order_once(plane: ControlPlane) -> None:
    run = await running(plane)
    drill = await order(plane, kind=KILL)
    (target,) = drill.targets
    assert (target.name, target.task, target.pids) == ("the driver", 0, (target.jvm_pid, target.pid))
    assert target.jvm_pid is not None
    assert (await plane.beat(task_heartbeat(run.id, task=1, sequence=2))).drill is None
    answer = await plane.beat(task_heartbeat(run.id, sequence=2))
    assert answer.drill is not None
    assert drills.sentence_of(drill) == "kill the driver of flights"
    assert (await report(plane, drill)).goes_on
    assert "the driver (processes" in (await get(plane, drill)).entries[-1].sentence


async def test_every_writer_must_run(plane: ControlPlane) -> None:
    run = await plane.running(transform=QUERY, tasks_per_instance=2, allows_drills=True)
    await plane.beat(task_heartbeat(run.id))
    with pytest.raises(ConflictError, match="1 of 2 tasks"):
        await order(plane)


async def test_a_driver_that_is_frozen_beyond_the_session_timeout_loses_its_lease(plane: ControlPlane) -> None:
    run = await running(plane)
    drill = await order(plane, for_s=60.0)
    assert (await report(plane, drill)).goes_on
    await report(plane, drill, ActStep.FROZEN)
    plane.pass_time(SESSION_S - 0.1)
    await seen(plane, drill)
    assert await state_of(plane, run) is InstanceState.RUNNING
    plane.pass_time(0.1)
    after = await seen(plane, drill)
    assert after.entries[-1].sentence.startswith("lease 1 is ended: frozen by a drill for 10 s")
    (instance,) = (await plane.get_run(run.id)).instances
    assert (instance.state, instance.outcome and instance.outcome.kind) == (InstanceState.FAILED, OutcomeKind.DRILLED)
    assert await plane.lease(run.id) == 2
    answer = await plane.beat(task_heartbeat(run.id, sequence=9))
    assert answer.is_current is False, "the zombie learns that it is superseded"
    await seen(plane, drill)
    assert await state_of(plane, run) is InstanceState.PENDING, "the second lease is left alone"


@pytest.mark.parametrize("prevented_by", ["short freeze", "thaw", "stop"])
async def test_a_driver_keeps_its_lease(plane: ControlPlane, prevented_by: str) -> None:
    run = await running(plane)
    drill = await order(plane, for_s=SESSION_S - 1 if prevented_by == "short freeze" else 60.0)
    await report(plane, drill)
    await report(plane, drill, ActStep.FROZEN)
    if prevented_by == "thaw":
        await report(plane, drill, ActStep.THAWED)
    if prevented_by == "stop":
        await stop(plane, drill)
    plane.pass_time(SESSION_S + 1)
    await seen(plane, drill)
    assert await state_of(plane, run) is InstanceState.RUNNING


def plan(kind: DrillKind, for_s: float = 15.0, **fields: object) -> DrillPlan:
    definition = a_definition(
        **{
            "transform": replace(QUERY, trigger_ms=500),
            "session_timeout_ms": 10_000,
            "transaction_timeout_ms": 8_000,
            **fields,
        }
    )
    return plan_of_query(definition, kind, for_s=for_s, cluster="demo")


@pytest.mark.parametrize(
    ("made", "bound_s", "replaced_after_s"),
    [
        (plan(KILL), 64.0, None),
        (plan(SERVER), 4.0, None),
        (plan(FREEZE, 5.0), 9.0, None),
        # The transaction is aborted meanwhile, so the query fails after the thaw.
        (plan(FREEZE, 9.0), 73.0, None),
        (plan(FREEZE, 60.0), 74.0, 10.0),
    ],
)
def test_the_plan_has_a_bound_and_the_time_of_the_second_driver(
    made: DrillPlan, bound_s: float, replaced_after_s: float | None
) -> None:
    assert (made.stands_still_s, made.replaced_after_s) == (bound_s, replaced_after_s)
    assert made.expected[-1].within_s == bound_s or made.expected == plan(SERVER).expected
    assert (made.commits_every_s, made.topics) == (0.5, a_definition().source_topics)
    told = " ".join(one.sentence for one in made.expected)
    assert ("a second one" in told) is (replaced_after_s is not None)
    assert "Spark starts" not in told


@pytest.mark.parametrize(
    ("batches", "verdict", "said"),
    [
        (
            BatchFigures(first=3, last=9, input_rows=1_200),
            DrillVerdict.SURVIVED,
            "batches 3 to 9 are committed once each",
        ),
        (BatchFigures(wrong="batch 5 ended after batch 9"), DrillVerdict.NOT_SURVIVED, "batch 5 ended after batch 9"),
        (BatchFigures(unknown="no batch ended"), DrillVerdict.NOT_AUDITED, "it has no plan, and no batch ended"),
    ],
    ids=["consistent", "wrong", "unknown"],
)
def test_without_an_audit_plan_the_batches_decide(batches: BatchFigures, verdict: DrillVerdict, said: str) -> None:
    drill = replace(a_drill(KILL), plan=plan(KILL), state=DrillState.AUDITING, recovered_at=at(9))
    ended = judging.conclude_by_batches(drill, batches, no_audit="it has no plan", now=at(20))
    assert ended.verdict is verdict
    assert said in ended.sentence
    assert ended.audit is None


async def test_the_loop_waits_for_the_journal_before_it_believes_a_contradiction(plane: ControlPlane) -> None:
    await running(plane)
    drill = await order(plane, kind=KILL)
    async with plane.uow() as uow:
        waits = replace(drill, state=DrillState.AUDITING, begun_at=plane.now, recovered_at=plane.now)
        await uow.of(DrillStore).save(waits)
        await uow.commit()
    watch = DrillWatch(
        unit_of_work=lambda: UnitOfWork(plane.database.engine, {AskedAudits: NoPlan(), AskedBatches: Contradiction()}),
        observations=Observations(is_on=False),
        freeze_self=never,
        clock=PlaneClock(plane),
        host="s1",
    )
    await watch.turn()
    assert (await get(plane, drill)).ended_at is None
    plane.pass_time(15)
    await watch.turn()
    assert (await get(plane, drill)).verdict is DrillVerdict.NOT_SURVIVED


class NoPlan:
    async def ask(self, uow: UnitOfWork, **asked: object) -> AuditWord:
        del uow, asked
        return AuditWord(no_audit="it has no plan")


class Contradiction:
    async def figures(self, uow: UnitOfWork, pipeline: str, **asked: object) -> BatchFigures:
        del uow, pipeline, asked
        return BatchFigures(wrong="batch 5 ended after batch 9")


async def never(for_s: float) -> str:
    raise AssertionError(f"the server is not frozen, for {for_s} s")
