"""Instances: lease, submission, claim, transitions and end."""

from __future__ import annotations

import secrets
from datetime import datetime

from msgspec.structs import replace

from app.core.access.service import command_log
from app.core.access.service.secret_sums import sha256_of
from app.core.access.store.access import AccessStore
from app.core.alerts import service as alerts
from app.core.alerts.told import lost_alert
from app.core.mappings.store.mappings import MappingStore
from app.core.runs.instance import Instance, InstanceOutcome, InstanceState, advance
from app.core.runs.run import DesiredRunState, Run
from app.core.runs.service.leases import add_lease
from app.core.runs.service.run_endings import end_run_if_over, notify_run
from app.core.runs.service.run_locks import lock_run
from app.core.runs.service.worker_words import refuse_no_process
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.task import OutcomeKind
from app.core.wire.heartbeat import Claim, ClaimAnswer
from app.kit.access import Principal, RunTokenScope, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError
from app.kit.storable import moment_of_ms, storable


async def lease_instance(
    uow: UnitOfWork, *, run_id: str, ordinal: int, by: Principal, reason: str | None, failures: int = 0, now: datetime
) -> Instance:
    """Lease the ordinal under the next number, at the run's revision; the row comes before any action.

    Raises ConflictError if the run is to end, or while the previous lease lives.
    """
    require(by, Verb.LEASE_INSTANCE)
    run = await lock_run(uow, run_id)
    if run.ended_at is not None or run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL):
        raise ConflictError(f"run {run_id} is {run.state}: none of its instances is leased again")
    previous = await uow.of(InstanceStore).find_current(run_id, ordinal, for_update=True)
    instance = await add_lease(uow, run=run, ordinal=ordinal, previous=previous, now=now)
    if reason is not None or failures:
        instance = replace(instance, reason=reason, failures=failures)
        await uow.of(InstanceStore).save(instance)
    notify_run(uow, run)
    return instance


async def begin_submission(
    uow: UnitOfWork, *, run_id: str, ordinal: int, lease: int, host: str, now: datetime
) -> tuple[Instance, str]:
    """PENDING → SUBMITTING, and return the lease's run token, which is not stored. Commit before anything is started.

    host: where the driver is about to be started; a server on another host then cannot observe its process.
    If two servers try at once, one succeeds; the other gets ConflictError and leaves the instance alone.
    """
    instance = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    if instance.state is not InstanceState.PENDING:
        raise ConflictError(f"instance {ordinal} of run {run_id} is {instance.state} already, under lease {lease}")
    secret = secrets.token_urlsafe(32)
    await uow.of(AccessStore).add_run_token(
        scope=RunTokenScope(run_id=run_id, ordinal=ordinal, lease=lease), secret_sha256=sha256_of(secret), now=now
    )
    instance = replace(
        instance,
        state=InstanceState.SUBMITTING,
        since=now,
        submitted_at=now,
        host=host,
        # If an ordinal fails repeatedly, its last failure stays visible while it starts.
        reason=instance.reason if instance.failures else None,
    )
    await uow.of(InstanceStore).save(instance)
    uow.notify("run", run_id)
    return instance, secret


async def record_submission(
    uow: UnitOfWork,
    *,
    run_id: str,
    ordinal: int,
    lease: int,
    host: str,
    jvm_pid: int,
    process_started_at: datetime,
    log_path: str,
) -> Instance:
    """Record the started process. An earlier claim is the application's own report and is not changed."""
    instance = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    instance = replace(instance, log_path=log_path)
    if instance.claimed_at is None:
        instance = replace(instance, host=host, jvm_pid=jvm_pid, process_started_at=process_started_at)
    await uow.of(InstanceStore).save(instance)
    uow.notify("run", run_id)
    return instance


async def claim_instance(uow: UnitOfWork, claim: Claim, *, now: datetime) -> ClaimAnswer:
    """Grant a claim if its lease is the ordinal's current one, lives, and no other application has claimed it.

    The same application may claim again (its first answer was lost). Others are refused with the reason, and exit.
    Raises InvalidError for an impossible process id.
    """
    refuse_no_process(claim.jvm_pid, claim.python_pid)
    claim = storable(claim)
    run = await uow.of(RunStore).get(claim.run_id)
    current = await uow.of(InstanceStore).find_current(claim.run_id, claim.ordinal, for_update=True)
    refusal = _refusal(run, current, claim)
    if refusal is not None:
        return ClaimAnswer(granted=False, reason=refusal)
    assert current is not None  # noqa: S101 - _refusal has refused the absent lease
    if current.claimed_at is None:
        state = current.state
        if state in (InstanceState.PENDING, InstanceState.SUBMITTING, InstanceState.UNREACHABLE):
            # From PENDING by way of SUBMITTING: its server may have died before it wrote that.
            state = advance(
                InstanceState.SUBMITTING if state is InstanceState.PENDING else state, InstanceState.STARTING
            )
        current = replace(
            current,
            state=state,
            since=now if state is not current.state else current.since,
            application_id=claim.application_id,
            host=claim.host,
            jvm_pid=claim.jvm_pid,
            python_pid=claim.python_pid,
            process_started_at=moment_of_ms(claim.process_started_at_ms),
            claimed_at=now,
            missing_since=None,
        )
        await uow.of(InstanceStore).save(current)
        notify_run(uow, run)
    return ClaimAnswer(granted=True)


def _refusal(run: Run, current: Instance | None, claim: Claim) -> str | None:
    where = f"instance {claim.ordinal} of run {claim.run_id}"
    if current is None or claim.lease > current.lease:
        return f"{where} has no lease {claim.lease}: this database may be an older copy of the one that granted it"
    if claim.lease < current.lease:
        return f"{where} was leased again: lease {current.lease} is the current one, yours is {claim.lease}"
    if run.ended_at is not None or current.has_ended:
        return f"{where} has ended already under lease {claim.lease}: it is {current.state}"
    if current.claimed_at is not None and current.application_id != claim.application_id:
        return f"lease {claim.lease} of {where} was claimed by application {current.application_id} already"
    return None


async def advance_instance(
    uow: UnitOfWork,
    *,
    run_id: str,
    ordinal: int,
    lease: int,
    to: InstanceState,
    reason: str | None,
    now: datetime,
) -> Instance:
    """Move an instance by the table of app/core/runs/instance.py.

    Ends the run if it was the last instance and the run is to end.

    Raises IllegalTransitionError if the table does not allow it. The same state again only changes the reason.
    """
    run = await lock_run(uow, run_id)
    before = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    instance = await move_locked_instance(uow, before, to, reason=reason, now=now)
    notify_run(uow, run)
    if instance.state is InstanceState.LOST and before.state is not InstanceState.LOST:
        await alerts.tell(uow, lost_alert(run, instance, now=now))
    if instance.has_ended:
        await end_run_if_over(uow, run_id=run_id, now=now)
    return instance


async def replace_drilled(
    uow: UnitOfWork, *, run_id: str, ordinal: int, lease: int, reason: str, now: datetime
) -> bool:
    """End a lease whose driver a drill has frozen, so that its ordinal is leased again; the driver is a zombie then.

    Return false without a change if the lease has ended, or the run is to pause or end.
    """
    run = await lock_run(uow, run_id)
    before = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    if before.has_ended or run.desired is not DesiredRunState.RUN:
        return False
    outcome = InstanceOutcome(kind=OutcomeKind.DRILLED, message=reason, at=now)
    drilled = replace(before, outcome=outcome)
    await move_locked_instance(uow, drilled, InstanceState.FAILED, reason=f"drilled: {reason}", now=now)
    notify_run(uow, run)
    return True


async def mark_healthy(uow: UnitOfWork, *, run_id: str, ordinal: int, lease: int) -> Instance:
    """Reset the failures, because the instance has run for a while."""
    instance = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    if instance.failures and not instance.has_ended:
        instance = replace(instance, failures=0)
        await uow.of(InstanceStore).save(instance)
        uow.notify("run", run_id)
    return instance


async def mark_missing(
    uow: UnitOfWork, *, run_id: str, ordinal: int, lease: int, missing_since: datetime | None
) -> Instance:
    """Write since when it is gone by its heartbeats, the cluster manager and the pid; None: it is not."""
    instance = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    if instance.missing_since != missing_since:
        instance = replace(instance, missing_since=missing_since)
        await uow.of(InstanceStore).save(instance)
    return instance


async def record_signal(
    uow: UnitOfWork, *, run_id: str, ordinal: int, lease: int, is_kill: bool, reason: str, by: Principal, now: datetime
) -> Instance:
    """Write that the driver gets SIGTERM or SIGKILL, and record it in the command log. Commit before it is sent.

    Raises ConflictError if the instance has ended meanwhile, or another server has written the same and sends it.
    """
    require(by, Verb.SIGNAL_INSTANCE)
    run = await uow.of(RunStore).get(run_id)
    instance = await uow.of(InstanceStore).get(run_id, ordinal, lease, for_update=True)
    if instance.has_ended:
        raise ConflictError(f"lease {lease} of instance {ordinal} of run {run_id} is {instance.state} already")
    before = instance.killed_at if is_kill else instance.drain_signalled_at
    # A time in the future was written by a clock that has jumped back since; the reconciler decides again.
    if before is not None and before <= now:
        raise ConflictError(f"lease {lease} of instance {ordinal} of run {run_id} was signalled at {before} already")
    instance = (
        replace(instance, killed_at=now, reason=reason)
        if is_kill
        else replace(instance, drain_signalled_at=now, reason=reason)
    )
    await uow.of(InstanceStore).save(instance)
    name = "SIGKILL" if is_kill else "SIGTERM"
    await command_log.record(
        uow,
        by=by,
        verb=Verb.SIGNAL_INSTANCE,
        target=f"pipeline:{run.pipeline}",
        why=reason,
        now=now,
        outcome=f"run {run_id}: {name} to the driver of instance {ordinal}, lease {lease}",
        details={"run": run_id, "ordinal": ordinal, "lease": lease},
    )
    notify_run(uow, run)
    return instance


async def stop_pending_instances(uow: UnitOfWork, *, run_id: str, reason: str, now: datetime) -> None:
    """PENDING → STOPPED for leases that were never submitted; the caller has locked the run's row."""
    for instance in await uow.of(InstanceStore).list(run_id, with_history=False):
        if instance.state is InstanceState.PENDING:
            locked = await uow.of(InstanceStore).get(run_id, instance.ordinal, instance.lease, for_update=True)
            if locked.state is InstanceState.PENDING:
                await move_locked_instance(uow, locked, InstanceState.STOPPED, reason=reason, now=now)


async def retry_pending_instances(uow: UnitOfWork, *, run_id: str, at: datetime) -> None:
    """Reset the failures of PENDING leases, as if they were granted `at`: the next turn submits them.

    The caller has locked the run's row.
    """
    for instance in await uow.of(InstanceStore).list(run_id, with_history=False):
        if instance.state is InstanceState.PENDING:
            locked = await uow.of(InstanceStore).get(run_id, instance.ordinal, instance.lease, for_update=True)
            if locked.state is InstanceState.PENDING:
                await uow.of(InstanceStore).save(replace(locked, leased_at=at, failures=0, reason=None))


async def list_instances(uow: UnitOfWork, run_id: str, *, with_history: bool = True) -> list[Instance]:
    """Return them by ordinal, then by falling lease; without history only the current lease of each ordinal."""
    await uow.of(RunStore).get(run_id)
    return await uow.of(InstanceStore).list(run_id, with_history=with_history)


async def move_locked_instance(
    uow: UnitOfWork, instance: Instance, to: InstanceState, *, reason: str | None, now: datetime
) -> Instance:
    """Move an instance whose row the caller has locked; when it ends, its partitions lose their owner."""
    state = advance(instance.state, to)
    moved = replace(instance, state=state, reason=reason)
    if state is not instance.state:
        moved = replace(moved, since=now)
        if state is InstanceState.DRAINING:
            # The signal of an earlier drain, before the last heartbeat, does not count any more.
            moved = replace(moved, drain_signalled_at=None)
    if moved != instance:
        await uow.of(InstanceStore).save(moved)
    if moved.has_ended and not instance.has_ended:
        await uow.of(MappingStore).release_instance(
            run_id=moved.run_id, ordinal=moved.ordinal, lease=moved.lease, now=now
        )
    return moved
