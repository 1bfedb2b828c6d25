"""Runs: start, pause, drain, restart, change of revision, end. This module only writes rows; the reconciler acts.

Every decision is made on locked rows: the pipeline's, then the run's, then the instance's. So two servers with the same
request take turns, and the second one reads the rows of the first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import to_builtins

from app.core.access.service import command_log
from app.core.alerts import service as alerts
from app.core.alerts.told import failed_alert, moved_alert
from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee
from app.core.pipelines.service.validation import refuse_invalid, validate_pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.recorded_offset import moved_sentence, unanswered_sentence
from app.core.runs.run import DESIRES, DesiredRunState, Run, RunEnd, fields_that_need_full_restart
from app.core.runs.service.busy import refuse_while_busy
from app.core.runs.service.instances import retry_pending_instances, stop_pending_instances
from app.core.runs.service.recorded_offsets import refuse_lost_offsets, refuse_lost_offsets_of_live
from app.core.runs.service.run_endings import begin_run, claim_transactional_ids, end_run_if_over, notify_run
from app.core.runs.service.run_locks import lock_run
from app.core.runs.service.switching import unsafe_switch
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError
from app.kit.page import Page, checked_limit


async def start_run(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    pipeline: str,
    allowed: AllowedOptions,
    by: Principal,
    why: str | None,
    now: datetime,
    switch_at_once: bool = False,
) -> Run:
    """Start the pipeline's current revision: claim its transactional ids and lease every instance as PENDING.

    switch_at_once: also from group_only to v2 or back, which may duplicate records; it requires a reason (`why`).

    Raises InvalidError if the definition would be refused today, and BrokerUnreachableError without an answer of the
    cluster. Raises ConflictError while a run lives, if another pipeline owns one of the ids, or if the group has lost
    confirmed offsets.
    """
    require(by, Verb.START_RUN)
    if switch_at_once and not (why or "").strip():
        raise InvalidError("switch_at_once needs a reason: records may be duplicated", field="why")
    checked = await uow.of(PipelineStore).get(pipeline)
    await refuse_live_run(uow, pipeline)
    cluster = await uow.of(ClusterStore).get(checked.cluster)
    await brokers.describe_cluster(cluster.connection())
    problems = await validate_pipeline(
        uow, brokers, name=pipeline, definition=checked.definition, allowed=allowed, by=by
    )
    refuse_invalid(pipeline, problems, verb="started")
    compared = await refuse_lost_offsets(uow, brokers, checked)
    partitions = await _partitions_with_ids(brokers, cluster, checked.definition)
    locked = await uow.of(PipelineStore).get(pipeline, for_update=True)
    await refuse_while_busy(uow, pipeline)
    if locked.current_revision != checked.current_revision:
        raise ConflictError(
            f"pipeline {pipeline} was changed to revision {locked.current_revision} during the start: "
            "check it and start it again"
        )
    await refuse_live_run(uow, pipeline)
    switch = await unsafe_switch(uow, locked)
    run = await begin_run(
        uow, locked, started_by=by.name, now=now, partitions=partitions, switch_at_once=switch_at_once
    )
    if compared.moved:
        group = locked.definition.group_id
        await alerts.tell(uow, moved_alert(run, group=group, moved=compared.moved, now=now))
    await command_log.record(
        uow,
        by=by,
        verb=Verb.START_RUN,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"run {run.id} of revision {run.revision}"
        + (f", {switch} in one step" if switch else "")
        + (f". {moved_sentence(locked.definition.group_id, compared.moved)}" if compared.moved else "")
        + (f". {unanswered_sentence(locked.definition.group_id, compared.unanswered)}" if compared.unanswered else ""),
        details={
            "run": run.id,
            "revision": run.revision,
            **({"moved_offsets": [to_builtins(one) for one in compared.moved]} if compared.moved else {}),
        },
    )
    return run


async def _partitions_with_ids(brokers: Brokers, cluster: Cluster, definition: PipelineDefinition) -> list[Partition]:
    """Return the input partitions with a transactional id each, as they are now."""
    if definition.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE:
        return []
    facts = await brokers.facts(cluster.connection(), topics=definition.source_topics)
    return [Partition(topic, number) for topic, found in facts.topics.items() for number in range(found.partitions)]


async def refuse_live_run(uow: UnitOfWork, pipeline: str) -> None:
    """Raise ConflictError, naming the run, while one lives."""
    live = await uow.of(RunStore).find_live(pipeline)
    if live is not None:
        raise ConflictError(
            f"pipeline {pipeline} has a run already: {live.id} is {live.state}, started by "
            f"{live.started_by}; drain or restart it"
        )


async def pause_run(uow: UnitOfWork, *, run_id: str, by: Principal, why: str | None, now: datetime) -> Run:
    """Request a pause: partitions paused, membership kept, no open transaction."""
    return await _desire(uow, run_id, DesiredRunState.PAUSE, verb=Verb.PAUSE_RUN, by=by, why=why, now=now)


async def resume_run(uow: UnitOfWork, *, run_id: str, by: Principal, why: str | None, now: datetime) -> Run:
    return await _desire(uow, run_id, DesiredRunState.RUN, verb=Verb.RESUME_RUN, by=by, why=why, now=now)


async def drain_run(uow: UnitOfWork, *, run_id: str, by: Principal, why: str | None, now: datetime) -> Run:
    """Request that every task finishes its checkpoint, commits and leaves. A drain cannot be cancelled."""
    return await _desire(uow, run_id, DesiredRunState.DRAIN, verb=Verb.DRAIN_RUN, by=by, why=why, now=now)


async def kill_run(uow: UnitOfWork, *, run_id: str, by: Principal, why: str | None, now: datetime) -> Run:
    """Request a kill: processes end at once; timeouts or the next start end the open transactions."""
    return await _desire(uow, run_id, DesiredRunState.KILL, verb=Verb.KILL_RUN, by=by, why=why, now=now)


async def _desire(
    uow: UnitOfWork,
    run_id: str,
    desired: DesiredRunState,
    *,
    verb: Verb,
    by: Principal,
    why: str | None,
    now: datetime,
) -> Run:
    require(by, verb)
    run = await lock_run(uow, run_id)
    _refuse_ended(run)
    if run.desired is desired and not run.starts_again:
        return run
    if run.desired is not desired and desired not in DESIRES[run.desired]:
        raise ConflictError(f"run {run_id} of {run.pipeline} is {run.state}: it cannot {verb.split('_')[0]} any more")
    # A user who drains or kills a run during its restart wants it to stay stopped.
    await uow.of(RunStore).set_desired(run_id, desired, starts_again=False)
    if desired in (DesiredRunState.DRAIN, DesiredRunState.KILL):
        await stop_pending_instances(uow, run_id=run_id, reason="not submitted before the end was requested", now=now)
    await command_log.record(
        uow,
        by=by,
        verb=verb,
        target=f"pipeline:{run.pipeline}",
        why=why,
        now=now,
        outcome=f"run {run_id}: from {run.desired} to {desired}",
        details={"run": run_id},
    )
    notify_run(uow, run)
    await end_run_if_over(uow, run_id=run_id, now=now)
    return await uow.of(RunStore).get(run_id)


async def restart_run(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    run_id: str,
    rolling: bool,
    by: Principal,
    why: str | None,
    now: datetime,
) -> Run:
    """Restart every instance at the pipeline's current revision: one at a time, or all after a full drain.

    Raises ConflictError with the fields if a rolling restart cannot apply the current revision, or if the group has
    lost committed offsets.
    """
    require(by, Verb.RESTART_RUN)
    found = await uow.of(RunStore).get(run_id)
    _refuse_ended(found)
    await refuse_lost_offsets_of_live(uow, brokers, await uow.of(PipelineStore).get(found.pipeline))
    run = await lock_run(uow, run_id)
    _refuse_ended(run)
    if run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL):
        raise ConflictError(f"run {run_id} of {run.pipeline} is {run.state}: wait until it is down, then start it")
    await refuse_while_busy(uow, run.pipeline)
    if rolling:
        # After every lease that it is to bounce, even if a clock has gone back since they were granted.
        leased = [instance.leased_at + timedelta(microseconds=1) for instance in run.instances]
        requested_at = max(now, *leased)
        await _move_to_current_revision(uow, run, bounce_requested_at=requested_at)
        # Instances that wait for a restart are submitted at once, and are not bounced after that.
        await retry_pending_instances(uow, run_id=run_id, at=requested_at)
        outcome = f"run {run_id}: its instances restart one at a time"
    else:
        await uow.of(RunStore).set_desired(run_id, DesiredRunState.DRAIN, starts_again=True)
        await stop_pending_instances(uow, run_id=run_id, reason="the run is restarted", now=now)
        outcome = f"run {run_id}: it drains, then the next run starts"
    await command_log.record(
        uow,
        by=by,
        verb=Verb.RESTART_RUN,
        target=f"pipeline:{run.pipeline}",
        why=why,
        now=now,
        outcome=outcome,
        details={"run": run_id, "rolling": rolling},
    )
    notify_run(uow, run)
    await end_run_if_over(uow, run_id=run_id, now=now)
    return await uow.of(RunStore).get(run_id)


async def roll_run(
    uow: UnitOfWork, brokers: Brokers, *, run_id: str, by: Principal, why: str | None, now: datetime
) -> Run:
    """Move a live run to the pipeline's current revision, one instance at a time (by the reconciler).

    Each instance: its lease n drains, then lease n + 1 is granted with the new revision.
    Raises ConflictError if a changed field needs a full restart, or if the group has lost committed offsets.
    """
    require(by, Verb.ROLL_RUN)
    run = await lock_run(uow, run_id)
    _refuse_ended(run)
    if run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL):
        return run
    await refuse_while_busy(uow, run.pipeline)
    await refuse_lost_offsets_of_live(uow, brokers, await uow.of(PipelineStore).get(run.pipeline))
    number = await _move_to_current_revision(uow, run, bounce_requested_at=run.bounce_requested_at)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.ROLL_RUN,
        target=f"pipeline:{run.pipeline}",
        why=why,
        now=now,
        outcome=f"run {run_id}: from revision {run.revision} to {number}",
        details={"run": run_id, "from": run.revision, "to": number},
    )
    notify_run(uow, run)
    return await uow.of(RunStore).get(run_id)


async def _move_to_current_revision(uow: UnitOfWork, run: Run, *, bounce_requested_at: datetime | None) -> int:
    """Raises ConflictError if an instance, at any revision of an aborted migration, cannot be rolled there."""
    pipeline = await uow.of(PipelineStore).get(run.pipeline)
    fields: list[str] = []
    for number in sorted({run.revision, *run.targets.values(), *(one.revision for one in run.instances)}):
        running = await uow.of(PipelineStore).get_revision(run.pipeline, number)
        fields += fields_that_need_full_restart(running.definition, pipeline.definition)
    fields = list(dict.fromkeys(fields))
    if fields:
        raise ConflictError(
            f"revision {pipeline.current_revision} of {run.pipeline} changes {', '.join(fields)}, which "
            "must be equal in all instances: use a full restart",
            field=fields[0],
        )
    await claim_transactional_ids(
        uow, pipeline=run.pipeline, kafka_cluster_id=run.kafka_cluster_id, definition=pipeline.definition
    )
    await uow.of(RunStore).set_target(
        run.id, revision=pipeline.current_revision, bounce_requested_at=bounce_requested_at
    )
    await uow.of(RunStore).set_targets(run.id, {})
    return pipeline.current_revision


async def fail_run(uow: UnitOfWork, *, run_id: str, reason: str, by: Principal, now: datetime) -> Run:
    """End a run as failed, with the reason, after permanent errors. No instance may live any more."""
    require(by, Verb.END_RUN)
    run = await lock_run(uow, run_id)
    _refuse_ended(run)
    living = [instance for instance in run.instances if not instance.has_ended]
    if living:
        raise ConflictError(f"run {run_id} cannot end: instance {living[0].ordinal} is {living[0].state}")
    await uow.of(RunStore).end(run_id, end=RunEnd.FAILED, reason=reason, now=now)
    await alerts.tell(uow, failed_alert(run, reason=reason, now=now))
    await command_log.record(
        uow,
        by=by,
        verb=Verb.END_RUN,
        target=f"pipeline:{run.pipeline}",
        why=None,
        now=now,
        outcome=f"run {run_id} failed: {reason}",
        details={"run": run_id},
    )
    notify_run(uow, run)
    return await uow.of(RunStore).get(run_id)


async def list_runs(
    uow: UnitOfWork, *, pipeline: str | None = None, after: str | None = None, limit: int = 50
) -> Page[Run]:
    """List runs, newest first."""
    if pipeline is not None:
        await uow.of(PipelineStore).get(pipeline)
    return await uow.of(RunStore).list(pipeline=pipeline, after=after, limit=checked_limit(limit))


async def list_live_runs(uow: UnitOfWork) -> list[Run]:
    """List every run that has not ended, with its current instances, for the reconciler."""
    return await uow.of(RunStore).list_live()


async def get_run(uow: UnitOfWork, run_id: str) -> Run:
    return await uow.of(RunStore).get(run_id)


def _refuse_ended(run: Run) -> None:
    if run.ended_at is not None:
        raise ConflictError(f"run {run.id} of {run.pipeline} has ended already: {run.end_reason or run.state}")
