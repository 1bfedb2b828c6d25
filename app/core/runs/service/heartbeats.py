"""Reports of drivers and tasks, and the answers to them.

Each attempt writes its own row, so that a zombie cannot overwrite another one; the highest (lease, attempt) counts. No
write here waits for the disk unless an event or a change of state must not be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from app.core.fencing.evidence import GroupRecord
from app.core.fencing.fencing_event import Case
from app.core.runs.hooks import Hooks
from app.core.runs.instance import ENDED, InstanceOutcome, InstanceState
from app.core.runs.lease_context import LeaseContext
from app.core.runs.rates import rates_between
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.run import desired_of_tasks
from app.core.runs.service import recorded_offsets
from app.core.runs.service.fencing_words import fencing_cases
from app.core.runs.service.instances import move_locked_instance
from app.core.runs.service.ownership import follow_ownership, is_retake_due, ownership_changed
from app.core.runs.service.run_endings import end_run_if_over, notify_run
from app.core.runs.service.run_locks import lock_run
from app.core.runs.service.worker_words import (
    MOST_EVENTS,
    accepted,
    accepted_driver,
    facts_for,
    refuse_impossible,
    refuse_unknown_task,
)
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.store.series import SeriesStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import (
    DesiredTaskState,
    OutcomeKind,
    TaskEventRecord,
    TaskReport,
    TaskStatus,
    instance_state_by_tasks,
)
from app.core.wire.drill import DrillOrder
from app.core.wire.heartbeat import DriverAnswer, DriverHeartbeat, HeartbeatAnswer, ReportedOutcome, TaskHeartbeat
from app.kit.access import RunTokenScope
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ForbiddenError, NotFoundError
from app.kit.storable import moment_of_ms, storable

FRESH_FOR = timedelta(seconds=3)
"""A task without a heartbeat for longer adds nothing to the run's rates."""
AHEAD_AT_MOST = timedelta(days=1)
"""The most by which an event's time, by its worker's clock, may be ahead: one in the year 9999 would never expire."""
LONGEST_EVENT_ID = 200
"""Fenceline's own ids have 32 characters; a much longer one does not fit into an index."""


_REPORT_FIELDS = TaskReport.__struct_fields__


class HeartbeatResult(NamedTuple):
    """The answer to the task, and the fencing cases of its events, to be recorded in a unit of work of their own.

    Those rows are shared with other observers, and the task needs its answer while another transaction locks them.
    taken: the heartbeat without the fields that are not its pipeline's. dropped: the number of those, by field.
    beyond: source topics with unknown partitions in the heartbeat, which the brokers should be asked for.
    """

    answer: HeartbeatAnswer
    fencing: list[Case]
    taken: TaskHeartbeat
    dropped: Counter[str]
    beyond: frozenset[str]
    context: LeaseContext


class DriverHeard(NamedTuple):
    """The same for a driver's heartbeat."""

    answer: DriverAnswer
    taken: DriverHeartbeat
    dropped: Counter[str]
    pipeline: str


async def receive_heartbeat(
    uow: UnitOfWork,
    heartbeat: TaskHeartbeat,
    *,
    scope: RunTokenScope,
    now: datetime,
    generations: Callable[[str, str], Iterable[GroupRecord]] = lambda _, __: (),
    counts: Callable[[str], Mapping[str, int]] = lambda _: {},
) -> HeartbeatResult:
    """Store a task's report, and answer with its desired state and whether its (lease, attempt) is current.

    generations: the journal's generations of a group (cluster's name, group), as far as this server has read it.
    counts: partitions of the topics of a Kafka cluster (by its id), as far as its brokers have reported them.

    Raises ForbiddenError if the token is another lease's or there is no such task. Raises InvalidError for an
    impossible attempt, NotFoundError if the lease is not in this database.
    """
    check_scope(scope, run_id=heartbeat.run_id, ordinal=heartbeat.ordinal, lease=heartbeat.lease)
    # With the ids as sent: the task would never forget an event whose id was corrected.
    stored_events = tuple(event.event_id for event in heartbeat.events[:MOST_EVENTS])
    refuse_impossible(heartbeat)
    context = await _context(uow, scope, task=heartbeat.task, attempt=heartbeat.attempt)
    refuse_unknown_task(heartbeat, context.bounds)
    before = None if context.own is None else context.own.last
    facts = await facts_for(
        uow,
        heartbeat := storable(heartbeat),
        context.bounds,
        kafka_cluster_id=context.kafka_cluster_id,
        before=before,
        counts=counts(context.kafka_cluster_id),
    )
    heartbeat, dropped, beyond = accepted(heartbeat, context.bounds, facts, before=before)
    report = report_of(heartbeat)
    is_zombie = (
        report.lease < context.current_lease
        or not context.attempt_is_newest(report.attempt)
        or context.instance_state is InstanceState.LOST
    )
    own = context.own
    state_changed = own is None or own.last.state is not report.state
    if not (state_changed or heartbeat.events or ownership_changed(own, report)):
        await uow.relax_durability()
    status = TaskStatus(
        last=report,
        received_at=now,
        state_since=now if own is None or state_changed else own.state_since,
        rates=rates_between(own, report),
    )
    written = await uow.of(TaskStore).record(status, is_zombie=is_zombie)
    events = [_event(heartbeat, event_index, now) for event_index in range(len(heartbeat.events))]
    if events:
        await uow.of(TaskStore).add_events(events)
    if written and not is_zombie:
        # The instance's row before the mappings: the order in which an ending instance locks them.
        if state_changed or context.instance_state is InstanceState.UNREACHABLE:
            await _follow_state(uow, context, report, now=now)
        if ownership_changed(own, report) or await is_retake_due(uow, report):
            heard = None if own is None else own.received_at
            await follow_ownership(uow, context, report, now=now, heard=heard)
        await uow.of(RecordedOffsetStore).report(
            recorded_offsets.reported(heartbeat),
            run_id=report.run_id,
            kafka_cluster_id=context.kafka_cluster_id,
            group=context.group,
        )
    sampled = await uow.of(SeriesStore).sample(report.run_id, now=now, fresh_for=FRESH_FOR)
    if state_changed or events:
        uow.notify("run", report.run_id)
    if sampled or state_changed or events:
        # New rates refresh pages; loops have nothing to do for them.
        uow.notify("pipeline", context.pipeline)
    is_current = context.lease_is_current and not is_zombie
    answer = HeartbeatAnswer(
        desired=_desired(context) if is_current else DesiredTaskState.DRAIN,
        is_current=is_current,
        database_epoch=context.database_epoch,
        accepted_events=stored_events,
        drill=_order(uow, context, report, now=now) if is_current else None,
        recorded=await _recorded(uow, context) if heartbeat.asks_recorded else None,
    )
    return HeartbeatResult(answer, fencing_cases(heartbeat, context, generations), heartbeat, dropped, beyond, context)


async def _recorded(uow: UnitOfWork, context: LeaseContext) -> tuple[RecordedOffset, ...]:
    return tuple(
        await uow.of(RecordedOffsetStore).of_group(kafka_cluster_id=context.kafka_cluster_id, group=context.group)
    )


def report_of(heartbeat: TaskHeartbeat) -> TaskReport:
    """Return the part of a heartbeat for the attempt's own row."""
    return TaskReport(**{field: getattr(heartbeat, field) for field in _REPORT_FIELDS})


async def receive_driver_heartbeat(
    uow: UnitOfWork, heartbeat: DriverHeartbeat, *, scope: RunTokenScope, now: datetime
) -> DriverHeard:
    """Store a driver's report of its cores; a driver whose claim is not current gets the order to drain."""
    check_scope(scope, run_id=heartbeat.run_id, ordinal=heartbeat.ordinal, lease=heartbeat.lease)
    context = await _context(uow, scope)
    heartbeat, dropped = accepted_driver(storable(heartbeat), context.bounds)
    is_current = context.lease_is_current and context.application_id == heartbeat.application_id
    if is_current:
        is_news = await uow.of(InstanceStore).touch(
            run_id=heartbeat.run_id,
            ordinal=heartbeat.ordinal,
            lease=heartbeat.lease,
            now=now,
            executors=heartbeat.executors,
            tasks_running=heartbeat.tasks_running,
            tasks_waiting=heartbeat.tasks_waiting,
            tasks_crashing=heartbeat.tasks_crashing,
        )
        if context.instance_state is InstanceState.UNREACHABLE:
            await _come_back(uow, scope, now=now)
            is_news = True
        else:
            await uow.relax_durability()
        if is_news:
            # Each notice wakes loops and refreshes pages, and most heartbeats bring only a new time.
            uow.notify("run", heartbeat.run_id)
            uow.notify("pipeline", context.pipeline)
    answer = DriverAnswer(
        desired=_desired(context) if is_current else DesiredTaskState.DRAIN,
        is_current=is_current,
        database_epoch=context.database_epoch,
    )
    return DriverHeard(answer, heartbeat, dropped, context.pipeline)


async def receive_outcome(uow: UnitOfWork, outcome: ReportedOutcome, *, scope: RunTokenScope, now: datetime) -> None:
    """Store the end of an application and move its instance there; the run ends with it if that was requested.

    The report of an application without the claim changes nothing: its refusal must not end the current one.
    """
    check_scope(scope, run_id=outcome.run_id, ordinal=outcome.ordinal, lease=outcome.lease)
    outcome = storable(outcome)
    run = await lock_run(uow, outcome.run_id)
    instance = await uow.of(InstanceStore).get(outcome.run_id, outcome.ordinal, outcome.lease, for_update=True)
    if outcome.application_id != (instance.application_id or "") or instance.outcome is not None:
        return
    ends_as = InstanceState.STOPPED if outcome.kind is OutcomeKind.DRAINED else InstanceState.FAILED
    kind = "permanent error" if outcome.kind is OutcomeKind.HOPELESS else str(outcome.kind)
    reason = f"{kind}: {outcome.message}" if outcome.message else kind
    instance = replace(instance, outcome=InstanceOutcome(kind=outcome.kind, message=outcome.message, at=now))
    await uow.of(InstanceStore).save(instance)
    if instance.state not in ENDED and instance.state is not InstanceState.PENDING:
        await move_locked_instance(uow, instance, ends_as, reason=reason, now=now)
        await end_run_if_over(uow, run_id=outcome.run_id, now=now)
    notify_run(uow, run)


def check_scope(scope: RunTokenScope, *, run_id: str, ordinal: int, lease: int) -> None:
    """Raise ForbiddenError unless the message is about the lease of the token."""
    if (scope.run_id, scope.ordinal, scope.lease) != (run_id, ordinal, lease):
        raise ForbiddenError(
            f"this run token is for run {scope.run_id}, instance {scope.ordinal}, lease {scope.lease}; "
            f"the message for run {run_id}, instance {ordinal}, lease {lease}"
        )


async def _context(
    uow: UnitOfWork, scope: RunTokenScope, *, task: int | None = None, attempt: int | None = None
) -> LeaseContext:
    context = await uow.of(TaskStore).lease_context(
        run_id=scope.run_id, ordinal=scope.ordinal, lease=scope.lease, task=task, attempt=attempt
    )
    if context is None:
        raise NotFoundError(
            f"run {scope.run_id} has no lease {scope.lease} of instance {scope.ordinal} in this database"
        )
    return context


def _order(uow: UnitOfWork, context: LeaseContext, report: TaskReport, *, now: datetime) -> DrillOrder | None:
    """Return the order of an open drill for this attempt, if there is one."""
    if context.drill is None:
        return None
    orders = (order_of(context.drill, report, now) for order_of in uow.part(Hooks).order_of)
    return next((order for order in orders if order is not None), None)


def _desired(context: LeaseContext) -> DesiredTaskState:
    return desired_of_tasks(context.desired, context.instance_state)


def _event(heartbeat: TaskHeartbeat, index: int, now: datetime) -> TaskEventRecord:
    event = heartbeat.events[index]
    return TaskEventRecord(
        run_id=heartbeat.run_id,
        event_id=event.event_id[:LONGEST_EVENT_ID],
        ordinal=heartbeat.ordinal,
        lease=heartbeat.lease,
        task=heartbeat.task,
        attempt=heartbeat.attempt,
        kind=event.kind,
        at=min(moment_of_ms(event.at_ms), now + AHEAD_AT_MOST),
        message=event.message,
        partitions=event.partitions,
        generation=event.generation,
        received_at=now,
    )


async def _follow_state(uow: UnitOfWork, context: LeaseContext, report: TaskReport, *, now: datetime) -> None:
    """Move the instance's state after its tasks'; decided on the locked row, since other tasks report concurrently."""
    states = await uow.of(TaskStore).states_of_instance(
        run_id=report.run_id, ordinal=report.ordinal, lease=report.lease
    )
    if instance_state_by_tasks(context.instance_state, states) is context.instance_state:
        return
    await _come_back(uow, RunTokenScope(run_id=report.run_id, ordinal=report.ordinal, lease=report.lease), now=now)


async def _come_back(uow: UnitOfWork, scope: RunTokenScope, *, now: datetime) -> None:
    instance = await uow.of(InstanceStore).get(scope.run_id, scope.ordinal, scope.lease, for_update=True)
    states = await uow.of(TaskStore).states_of_instance(run_id=scope.run_id, ordinal=scope.ordinal, lease=scope.lease)
    to = instance_state_by_tasks(instance.state, states)
    if to is instance.state and to is InstanceState.UNREACHABLE:
        to = InstanceState.STARTING
    await move_locked_instance(uow, instance, to, reason=instance.reason if to is instance.state else None, now=now)
