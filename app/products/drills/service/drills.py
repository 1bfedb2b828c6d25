"""Start, claim and stop drills. `loop.py` observes them.

Every decision is made on the drill's locked row, so that two claims, or a claim and a stop, are serialised.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime, timedelta

from msgspec.structs import replace

from app.core.access.service import command_log
from app.core.asked_audits import AskedAudits
from app.core.audit_figures import AuditWord
from app.core.clusters.store import ClusterStore
from app.core.clusters.survey import ABORT_SWEEP, GROUP_SESSION, longest_ms
from app.core.clusters.surveys import Surveys
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.run import DesiredRunState, Run
from app.core.runs.service import instances
from app.core.runs.service.heartbeats import check_scope
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskState, TaskStatus
from app.core.wire.drill import ActStep, DrillAnswer, DrillReport
from app.kit.access import DRILLS, Principal, RunTokenScope, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, NotFoundError
from app.kit.page import Page, checked_limit
from app.kit.storable import storable
from app.products.drills.drill import DISTURBS, LONGEST_S, SHORTEST_S, Drill, DrillKind, DrillState, Target, TargetState
from app.products.drills.judging import hear, said, stop
from app.products.drills.planning import UNKNOWN, BrokerTimes, plan_of
from app.products.drills.query_planning import plan_of_query
from app.products.drills.store import DrillStore
from app.products.drills.timeline import EntryKind

NOTICE = "drill"
HEARD_WITHIN = timedelta(seconds=5)
ANSWER_S = 2.0
"""Longest wait for the brokers' settings at an order; then they are unknown."""


async def begin_drill(
    uow: UnitOfWork,
    *,
    pipeline: str,
    kind: DrillKind,
    ordinal: int | None,
    for_s: float,
    by: Principal,
    why: str | None,
    now: datetime,
    times: BrokerTimes = UNKNOWN,
) -> Drill:
    """Order a drill of the pipeline's live run. The targets claim it with their next heartbeat.

    The target of a query is its driver.

    ordinal: the instance; None with the server. for_s: duration of a freeze; a kill has no duration.

    Raises ConflictError

    - while another drill affects pipelines, or the audit of this pipeline's last drill waits
    - unless all instances and tasks run
    - if the definition that runs does not allow drills; for the server, if that of any running pipeline does not

    Raises InvalidError for invalid arguments.
    """
    require(by, Verb.START_DRILL)
    _check(kind, ordinal, for_s)
    run = await uow.of(RunStore).find_live(pipeline)
    if run is None:
        await uow.of(PipelineStore).get(pipeline)
        raise ConflictError(f"pipeline {pipeline} has no run: start it before a drill")
    await _refuse_another(uow, pipeline)
    _refuse_unless_all_runs(run)
    runs = [run] if kind is not DrillKind.FREEZE_SERVER else await uow.of(RunStore).list_live()
    for one in runs:
        await _refuse_unless_allowed(uow, one)
    definition = (await uow.of(PipelineStore).get_revision(pipeline, run.revision)).definition
    heard = await uow.of(TaskStore).list_statuses([run.id])
    of_all = definition.tasks_per_instance * definition.instances
    if kind is DrillKind.FREEZE_SERVER:
        lease, targets, own = None, (), 0
    else:
        instance = next((one for one in run.instances if one.ordinal == ordinal), None)
        if instance is None:
            raise NotFoundError(f"pipeline {pipeline} has no instance {ordinal}: it has {len(run.instances)}")
        lease, own = instance.lease, definition.tasks_per_instance
        targets = _targets(instance, heard, tasks=own, now=now)
        if definition.dataframe is not None:
            targets = (_driver_of(targets, instance),)
    if definition.dataframe is not None:
        plan = plan_of_query(definition, kind, for_s=for_s, cluster=run.cluster)
    else:
        plan = plan_of(definition, kind, for_s=for_s, cluster=run.cluster, others=of_all - own, own=own, times=times)
    drill = Drill(
        id=str(uuid.uuid4()),
        pipeline=pipeline,
        run_id=run.id,
        kind=kind,
        ordinal=ordinal,
        lease=lease,
        plan=plan,
        state=DrillState.ORDERED,
        targets=targets,
        ordered_at=now,
        ordered_by=by.name,
        why=why,
    )
    drill = said(drill, EntryKind.DRILL, f"ordered by {by.name}: {sentence_of(drill)}", now=now)
    await uow.of(DrillStore).add(drill)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.START_DRILL,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"drill {drill.id}: {sentence_of(drill)}",
        details={"drill": drill.id, "kind": kind, "ordinal": ordinal, "for_s": for_s},
    )
    notify(uow, drill)
    return drill


async def broker_times(uow: UnitOfWork, surveys: Surveys, pipeline: str) -> BrokerTimes:
    """Return the current settings of the brokers of the pipeline's run; unknown ones are None."""
    run = await uow.of(RunStore).find_live(pipeline)
    if run is None:
        return UNKNOWN
    cluster = await uow.of(ClusterStore).get(run.cluster)
    try:
        async with asyncio.timeout(ANSWER_S):
            survey = (await surveys.of(cluster)).survey
    except TimeoutError:
        survey = None
    if survey is None:
        return UNKNOWN
    return BrokerTimes(
        session_s=_seconds(longest_ms(survey, GROUP_SESSION)), abort_sweep_s=_seconds(longest_ms(survey, ABORT_SWEEP))
    )


async def stop_drill(uow: UnitOfWork, drill_id: str, *, by: Principal, why: str | None, now: datetime) -> Drill:
    """Stop a drill: the order is withdrawn, and watchdogs thaw frozen processes within a second or two.

    The drill's audit is stopped too.
    """
    require(by, Verb.STOP_DRILL)
    drill = await uow.of(DrillStore).get(drill_id, for_update=True)
    if not drill.is_open:
        raise ConflictError(f"the drill has ended: {drill.sentence}")
    stopped = stop(drill, by=by.name, now=now)
    if stopped is drill:
        return drill
    await uow.of(DrillStore).save(stopped)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.STOP_DRILL,
        target=f"pipeline:{drill.pipeline}",
        why=why,
        now=now,
        outcome=f"drill {drill_id} was {drill.state}",
        details={"drill": drill_id},
    )
    if drill.audit_id is not None:
        await uow.part(AskedAudits).stop(uow, drill.audit_id, by=by, why=f"drill {drill_id} was stopped", now=now)
    notify(uow, stopped)
    return stopped


async def receive_report(uow: UnitOfWork, report: DrillReport, *, scope: RunTokenScope, now: datetime) -> DrillAnswer:
    """Process a claim or a watchdog's report. A claim is granted once, in time, and to the target only."""
    check_scope(scope, run_id=report.run_id, ordinal=report.ordinal, lease=report.lease)
    report = storable(report)
    drill = await uow.of(DrillStore).get(report.drill_id, for_update=True)
    if (drill.run_id, drill.ordinal, drill.lease) != (report.run_id, report.ordinal, report.lease):
        raise NotFoundError(f"drill {report.drill_id} is for another instance")
    target = drill.target_of(report.task, report.attempt)
    if target is None:
        return DrillAnswer(goes_on=False, reason="the drill is for another attempt of this task")
    if not drill.is_open:
        return DrillAnswer(goes_on=False, reason="the drill has ended")
    is_claim = report.step is ActStep.CLAIMED
    if is_claim and (refusal := _refused_claim(drill, target, now=now)):
        return DrillAnswer(goes_on=False, reason=refusal)
    heard = hear(drill, target, report.step, now=now, message=report.message)
    if heard is not drill:
        await uow.of(DrillStore).save(heard)
        notify(uow, heard)
    return DrillAnswer(goes_on=heard.stop_requested_at is None)


async def replace_frozen_driver(uow: UnitOfWork, drill: Drill, *, now: datetime) -> Drill:
    """End the lease of a frozen driver when its time has come, so that the reconciler starts a second one.

    A server on a driver's host never does so otherwise, since it sees that the process lives.
    """
    if not drill.is_replacement_due(now) or drill.ordinal is None or drill.lease is None:
        return drill
    reason = f"frozen by a drill for {drill.plan.replaced_after_s:g} s, the session timeout: a second driver takes over"
    is_ended = await instances.replace_drilled(
        uow, run_id=drill.run_id, ordinal=drill.ordinal, lease=drill.lease, reason=reason, now=now
    )
    if not is_ended:
        return drill
    return said(drill, EntryKind.DRILL, f"lease {drill.lease} is ended: {reason}", now=now)


async def audit_word(uow: UnitOfWork, drill: Drill, *, now: datetime) -> AuditWord:
    """Ask for the audit of the drill's time, or for the state of the one that was asked for (`drill.audit_id`).

    The caller holds the drill's row. While another audit of the pipeline lives, the drill's waits for its end.
    """
    audits = uow.part(AskedAudits)
    if drill.audit_id is not None:
        return await audits.word(uow, drill.audit_id)
    try:
        return await audits.ask(
            uow,
            pipeline=drill.pipeline,
            begin=drill.ordered_at,
            end=drill.recovered_at or now,
            by=DRILLS,
            why=f"drill {drill.id}",
            now=now,
        )
    except ConflictError:
        return AuditWord()


async def list_drills(
    uow: UnitOfWork, *, pipeline: str | None = None, after: str | None = None, limit: int = 50
) -> Page[Drill]:
    """Return drills, newest first. Raises NotFoundError if the pipeline does not exist."""
    if pipeline is not None:
        await uow.of(PipelineStore).get(pipeline)
    return await uow.of(DrillStore).list(pipeline=pipeline, after=after, limit=checked_limit(limit))


async def get_drill(uow: UnitOfWork, drill_id: str) -> Drill:
    return await uow.of(DrillStore).get(drill_id)


def sentence_of(drill: Drill) -> str:
    match drill.kind:
        case DrillKind.FREEZE_INSTANCE if drill.is_of_driver:
            return f"freeze the driver of {drill.pipeline} for {drill.plan.for_s:g} s"
        case DrillKind.KILL_INSTANCE if drill.is_of_driver:
            return f"kill the driver of {drill.pipeline}"
        case DrillKind.FREEZE_INSTANCE:
            return f"freeze instance {drill.ordinal} of {drill.pipeline} for {drill.plan.for_s:g} s"
        case DrillKind.KILL_INSTANCE:
            return f"kill the Python workers of instance {drill.ordinal} of {drill.pipeline}"
        case DrillKind.FREEZE_SERVER:
            return f"freeze the server for {drill.plan.for_s:g} s, with {drill.pipeline}"


def notify(uow: UnitOfWork, drill: Drill) -> None:
    uow.notify(NOTICE, drill.id)
    uow.notify("pipeline", drill.pipeline)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _refused_claim(drill: Drill, target: Target, *, now: datetime) -> str:
    """Return the reason to refuse a claim, or an empty text to grant it."""
    if target.is_acted_on:
        return "it was granted already, and is granted only once"
    if target.state is TargetState.REFUSED:
        return "its host refused it already"
    if drill.may_begin(now):
        return ""
    return "the drill was stopped" if drill.stop_requested_at is not None else "the order has expired"


def _check(kind: DrillKind, ordinal: int | None, for_s: float) -> None:
    if not SHORTEST_S <= for_s <= LONGEST_S:
        raise InvalidError(f"the duration must be {SHORTEST_S:g} to {LONGEST_S:g} s, not {for_s:g}", field="for_s")
    if (ordinal is None) is not (kind is DrillKind.FREEZE_SERVER):
        needs = "takes no instance" if kind is DrillKind.FREEZE_SERVER else "requires an instance"
        raise InvalidError(f"a drill of the kind {kind} {needs}", field="ordinal")


async def _refuse_another(uow: UnitOfWork, pipeline: str) -> None:
    """Raise ConflictError if `blocking` returns a drill. The database refuses the second of two concurrent orders."""
    other = await blocking(uow, pipeline)
    if other is not None:
        raise ConflictError(
            f"one drill at a time: {sentence_of(other)}, ordered by {other.ordered_by}, is {other.state}. "
            f"Wait for its end, or stop it: fenceline drill stop {other.id}"
        )


async def blocking(uow: UnitOfWork, pipeline: str) -> Drill | None:
    """Return the drill that blocks a new one: one that affects pipelines, or one of this pipeline whose audit waits.

    While its audit waits, the pipeline may still process its time range, and must not be drilled in it again.
    """
    for one in await uow.of(DrillStore).list_open():
        if one.state in DISTURBS:
            return one
        if one.pipeline == pipeline and (
            one.audit_id is None or await uow.part(AskedAudits).is_waiting(uow, one.audit_id)
        ):
            return one
    return None


async def why_disturbed(uow: UnitOfWork, pipeline: str) -> str | None:
    """Return the reason why no migration of the pipeline may begin now, or None."""
    drill = await blocking(uow, pipeline)
    if drill is None:
        return None
    return f"a drill is {drill.state}: its effects and the migration's would mix. Wait for its end"


def _refuse_unless_all_runs(run: Run) -> None:
    if run.desired is not DesiredRunState.RUN:
        raise ConflictError(
            f"pipeline {run.pipeline} is {run.state}: a drill requires a run in which all instances run"
        )
    for instance in run.instances:
        if instance.state is not InstanceState.RUNNING:
            raise ConflictError(
                f"instance {instance.ordinal} of {run.pipeline} is {instance.state}: a drill requires that all run"
            )


async def _refuse_unless_allowed(uow: UnitOfWork, run: Run) -> None:
    """Check the definitions that run, since the processes belong to them."""
    for number in sorted({instance.revision for instance in run.instances} | {run.revision}):
        if not (await uow.of(PipelineStore).get_revision(run.pipeline, number)).definition.allows_drills:
            raise ConflictError(
                f"the running revision {number} of pipeline {run.pipeline} does not allow drills: set allows_drills "
                "and restart the run"
            )


def _targets(instance: Instance, heard: list[TaskStatus], *, tasks: int, now: datetime) -> tuple[Target, ...]:
    """Return the attempts that run now. Raises ConflictError unless all are known to run."""
    own = [one for one in heard if (one.ordinal, one.lease) == (instance.ordinal, instance.lease)]
    running = [one for one in own if one.last.state is TaskState.RUNNING and now - one.received_at <= HEARD_WITHIN]
    if len(running) != tasks:
        raise ConflictError(
            f"{len(running)} of {tasks} tasks of instance {instance.ordinal} are known to run: a drill requires all"
        )
    return tuple(
        Target(task=one.task, attempt=one.attempt, host=one.last.host, pid=one.last.pid, since=now) for one in running
    )


def _driver_of(writers: tuple[Target, ...], instance: Instance) -> Target:
    """Return the driver of a query, which sends the heartbeats of its writers."""
    first = next(one for one in writers if one.task == 0)
    return replace(first, is_driver=True, jvm_pid=instance.jvm_pid)
