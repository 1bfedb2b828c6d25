"""The issues of a run, worst first: each is a sentence with its cause and next step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from app.core.mappings.mapping import PartitionMapping
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.crash_loop import crash_loop_sentence, has_permanent_error, is_failing
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.not_progressing import not_progressing_sentence
from app.core.runs.run import Run, RunState, fields_that_need_full_restart
from app.core.runs.task import TaskState, TaskStatus
from app.kit.words import duration, duration_s

SILENT_AFTER = timedelta(seconds=5)
NOT_IN_AFTER = timedelta(seconds=15)
_NAMED = 4
UNREAD_AFTER = timedelta(seconds=5)
"""A rebalance is faster than this; a partition without an owner for longer is an issue."""


class NeedSeverity(StrEnum):
    WRONG = "wrong"
    STOPPED = "stopped"
    DEGRADED = "degraded"
    NOTICE = "notice"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One issue of a run.

    run_id, explained: the page with details; explained is the page of the pipeline, the last part of its address.
    next_step: how to fix it; None if it ends by itself. mark: the text that a list of pipelines shows beside the state.
    may_follow: it is also what a cluster without answers causes, and then no issue of its own.
    """

    pipeline: str
    run_id: str | None
    severity: NeedSeverity
    sentence: str
    next_step: str | None = None
    explained: str | None = None
    mark: str = ""
    may_follow: bool = False


def needs_of(
    run: Run,
    tasks: Sequence[TaskStatus],
    *,
    running: PipelineDefinition,
    current: PipelineDefinition,
    unowned: Sequence[PartitionMapping] = (),
    now: datetime,
) -> list[Need]:
    """Return the issues of one run.

    running, current: the run's definition, and the pipeline's.
    unowned: the pipeline's partitions without an owner.
    """
    of_instances = [need for instance in run.instances for need in _of_instance(run, instance)]
    of_tasks = _of_tasks(run, tasks, running, now)
    found = [*_ended(run), *of_instances, *of_tasks]
    if not of_instances and not any(_is_away(status, now) for status in _living(run, tasks)):
        # The partitions of a missing instance or task have no reader: one cause is one issue.
        found += _of_unread(run, unowned, running, now)
    fields = fields_that_need_full_restart(running, current)
    if run.ended_at is None and fields:
        found.append(
            _need(
                run,
                NeedSeverity.NOTICE,
                f"the newest revision changes {', '.join(fields)} and waits for a full restart",
                "restart the run as a whole",
            )
        )
    return sorted(found, key=lambda need: list(NeedSeverity).index(need.severity))


def _need(
    run: Run, severity: NeedSeverity, sentence: str, next_step: str | None = None, *, may_follow: bool = False
) -> Need:
    return Need(
        pipeline=run.pipeline,
        run_id=run.id,
        severity=severity,
        sentence=sentence,
        next_step=next_step,
        may_follow=may_follow,
    )


def _ended(run: Run) -> list[Need]:
    if run.state is not RunState.FAILED:
        return []
    return [
        _need(
            run,
            NeedSeverity.STOPPED,
            f"the run failed: {run.end_reason or 'no reason is known'}",
            "fix the cause, then start the pipeline again; it continues from its committed offsets",
        )
    ]


def _of_instance(run: Run, instance: Instance) -> list[Need]:
    if run.ended_at is not None:
        return []
    if is_failing(instance, bounce_requested_at=run.bounce_requested_at):
        return [
            _need(
                run,
                NeedSeverity.STOPPED,
                f"crash-looping: {crash_loop_sentence(instance, bounce_requested_at=run.bounce_requested_at)}",
                "fix the cause; it is restarted automatically, at once with "
                f"`fenceline runs restart {run.pipeline}`, and stopped with `fenceline runs drain {run.pipeline}`",
            )
        ]
    who = f"instance {instance.ordinal}"
    why = f": {instance.reason}" if instance.reason else ""
    match instance.state:
        case InstanceState.FAILED | InstanceState.LOST:
            again = f"fix the cause, then restart it: `fenceline runs restart {run.pipeline}`"
            next_step = again if has_permanent_error(instance) else None
            return [_need(run, NeedSeverity.STOPPED, f"{who} is {instance.state}{why}", next_step)]
        case InstanceState.UNREACHABLE:
            return [
                _need(
                    run,
                    NeedSeverity.DEGRADED,
                    f"{who} is unreachable{why}",
                    "check whether its host and Spark still run",
                )
            ]
        case _:
            waits = instance.slots_sentence()
            return (
                []
                if waits is None
                else [
                    _need(
                        run,
                        NeedSeverity.DEGRADED,
                        f"{who}: {waits}",
                        "add Spark workers or cores, or lower the pipeline's tasks per instance",
                    )
                ]
            )


def _of_tasks(run: Run, tasks: Sequence[TaskStatus], definition: PipelineDefinition, now: datetime) -> list[Need]:
    if run.ended_at is not None:
        return []
    gone = {i.ordinal for i in run.instances if i.state is InstanceState.UNREACHABLE}
    found: list[Need] = []
    silent: list[TaskStatus] = []
    for status in _living(run, tasks):
        who = f"task {status.ordinal}.{status.task}"
        age = now - status.received_at
        open_ms = status.last.open_transaction_age_ms or 0
        if status.last.not_progressing_ms is not None:
            step = "fix the cause of the error; checkpoints become smaller automatically, down to one record"
            sentence = f"not progressing: {not_progressing_sentence(status)}"
            found.append(_need(run, NeedSeverity.STOPPED, sentence, step, may_follow=True))
        elif status.last.state in (TaskState.FAILED, TaskState.BACKING_OFF):
            error = status.last.last_error or "no error was given"
            sentence = f"{who} is {status.last.state.replace('_', ' ')}: {error}"
            found.append(_need(run, NeedSeverity.DEGRADED, sentence, may_follow=True))
        elif _is_kept_out(status, now):
            sentence = f"{who} is not a member of its group: {status.last.last_error}"
            found.append(_need(run, NeedSeverity.DEGRADED, sentence, may_follow=True))
        elif age > SILENT_AFTER and status.last.state is not TaskState.DRAINED:
            # The processes of an unreachable instance send nothing: that is its line already.
            if status.ordinal not in gone:
                silent.append(status)
        elif open_ms > definition.transaction_timeout_ms / 2:
            found.append(
                _need(
                    run,
                    NeedSeverity.DEGRADED,
                    f"{who} has an open transaction for {duration(open_ms)} of at most "
                    f"{duration(definition.transaction_timeout_ms)}",
                    may_follow=True,
                )
            )
    return [*found, *_of_silent(run, silent, now)]


def _of_silent(run: Run, silent: Sequence[TaskStatus], now: datetime) -> list[Need]:
    """Return one issue for all tasks of an instance without heartbeats: they have one driver, and one way to here."""
    found: list[Need] = []
    for ordinal in sorted({status.ordinal for status in silent}):
        of_instance = [status for status in silent if status.ordinal == ordinal]
        named = ", ".join(f"{ordinal}.{status.task}" for status in of_instance[:_NAMED])
        more = f" and {len(of_instance) - _NAMED} more" if len(of_instance) > _NAMED else ""
        lasts = duration_s(max((now - status.received_at).total_seconds() for status in of_instance))
        who = f"task {named} has" if len(of_instance) == 1 else f"tasks {named}{more} have"
        found.append(_need(run, NeedSeverity.DEGRADED, f"{who} sent no heartbeat for {lasts}"))
    return found


def _living(run: Run, tasks: Sequence[TaskStatus]) -> list[TaskStatus]:
    living = {(i.ordinal, i.lease) for i in run.instances if not i.has_ended}
    return [status for status in tasks if (status.ordinal, status.lease) in living]


def _is_away(status: TaskStatus, now: datetime) -> bool:
    """Return whether the task reads nothing, for a reason that is an issue of its own."""
    is_silent = now - status.received_at > SILENT_AFTER and status.last.state is not TaskState.DRAINED
    return status.last.state in (TaskState.FAILED, TaskState.BACKING_OFF) or is_silent or _is_kept_out(status, now)


def _is_kept_out(status: TaskStatus, now: datetime) -> bool:
    """Return whether a task with an error has not been a member of its group for longer than a rebalance takes."""
    is_starting = status.last.state is TaskState.STARTING and status.last.last_error is not None
    return is_starting and now - status.state_since > NOT_IN_AFTER


def _of_unread(
    run: Run, unowned: Sequence[PartitionMapping], definition: PipelineDefinition, now: datetime
) -> list[Need]:
    """Yield an issue for partitions without an owner for a while, although the run's state is running."""
    if run.state not in (RunState.RUNNING, RunState.DEGRADED, RunState.CRASH_LOOPING):
        return []
    unread = [m for m in unowned if m.topic in definition.source_topics and now - m.since > UNREAD_AFTER]
    if not unread:
        return []
    named = ", ".join(f"{m.topic}-{m.partition}" for m in unread[:_NAMED])
    more = f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
    since_s = max((now - m.since).total_seconds() for m in unread)
    return [
        _need(
            run,
            NeedSeverity.DEGRADED,
            f"no task has read {named}{more} for {duration_s(since_s)}",
            f"check the brokers of {definition.cluster} and the task events",
            may_follow=True,
        )
    ]
