"""The steps of an audit from the submission of its driver to its outcome."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

import msgspec

from app.core.access.service.secret_sums import sha256_of
from app.core.alerts import service as alerts
from app.core.clusters.store import ClusterStore
from app.core.late_rows import LateRows
from app.core.pipelines.store import PipelineStore
from app.core.runs.launcher import Submitted
from app.core.runs.service.worker_words import refuse_no_process
from app.core.wire.heartbeat import ClaimAnswer
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, ForbiddenError
from app.kit.storable import moment_of_ms, storable
from app.products.audits import wire as wire
from app.products.audits.alerts import audit_alert
from app.products.audits.audit import Audit, AuditProgress, AuditState, counted, moved
from app.products.audits.result import AuditResult, AuditVerdict, possible, verdict
from app.products.audits.service.asking import NOTICE, notify_audit
from app.products.audits.service.in_force import doubts_about
from app.products.audits.specification import DroppedRows, specification_of
from app.products.audits.store import AuditPlanStore, AuditStore

_ENDS = {
    wire.AuditEnd.DONE: AuditState.DONE,
    wire.AuditEnd.FAILED: AuditState.FAILED,
    wire.AuditEnd.STOPPED: AuditState.STOPPED,
}


async def begin_submission(
    uow: UnitOfWork,
    audit_id: str,
    *,
    host: str,
    cores: int,
    fenceline_version: str,
    server_urls: Sequence[str],
    now: datetime,
) -> wire.AuditOrder:
    """Move an audit from PENDING to SUBMITTING, and return the order for its driver. Commit before the start.

    Raises IllegalTransitionError if another server or a stop was first.
    """
    audit = await uow.of(AuditStore).get(audit_id, for_update=True)
    audit = msgspec.structs.replace(moved(audit, AuditState.SUBMITTING, now=now), host=host)
    await uow.of(AuditStore).save(audit)
    secret = secrets.token_urlsafe(32)
    await uow.of(AuditStore).keep_token(audit_id, sha256_of(secret))
    revision = await uow.of(PipelineStore).get_revision(audit.pipeline, audit.revision)
    cluster = await uow.of(ClusterStore).get(revision.definition.cluster)
    source = (
        None
        if revision.transform_source_sha256 is None
        else (await uow.of(PipelineStore).get_source(revision.transform_source_sha256)).source
    )
    notify_audit(uow, audit)
    specification = specification_of(
        revision.definition,
        audit_id=audit.id,
        pipeline=audit.pipeline,
        revision=audit.revision,
        window=audit.window,
        id=audit.id_place,
        source_id=audit.source_id_place,
        transform_source=source,
        file_roots=await _roots_of(uow, audit.pipeline),
        padding_ms=audit.padding_s * 1000,
        cores=cores,
        doubts=await doubts_about(uow, audit, now=now),
        comparison=audit.comparison,
    )
    if audit.comparison is not None and audit.comparison.is_recomputation:
        late = await uow.part(LateRows).late_batches(uow, audit.pipeline)
        dropped = tuple(DroppedRows(ended_at_ms=one.ended_at_ms, rows=one.rows) for one in late)
        specification = msgspec.structs.replace(specification, late_batches=dropped)
    return wire.AuditOrder(
        fenceline_version=fenceline_version,
        specification=specification,
        client_config=cluster.connection(),
        server_urls=tuple(server_urls),
        token=secret,
    )


async def _roots_of(uow: UnitOfWork, pipeline: str) -> tuple[str, ...]:
    """Return the file roots of all revisions, since the padding may have references of an earlier one."""
    revisions = await uow.of(PipelineStore).list_revisions(pipeline)
    return tuple(one.definition.files.root for one in revisions if one.definition.files is not None)


async def record_submission(uow: UnitOfWork, audit_id: str, submitted: Submitted, *, now: datetime) -> None:
    """Record the driver's process, unless the driver has claimed the audit or has ended already."""
    audit = await uow.of(AuditStore).get(audit_id, for_update=True)
    if audit.has_ended:
        return
    if audit.state is AuditState.SUBMITTING:
        audit = moved(audit, AuditState.RUNNING, now=now)
    is_claimed = audit.python_pid is not None
    await uow.of(AuditStore).save(
        msgspec.structs.replace(
            audit,
            jvm_pid=submitted.jvm_pid,
            process_started_at=audit.process_started_at if is_claimed else submitted.started_at,
            log_path=submitted.log_path or audit.log_path,
            submitted_at=audit.submitted_at or now,
        )
    )
    notify_audit(uow, audit)


async def move_audit(
    uow: UnitOfWork,
    audit_id: str,
    to: AuditState,
    *,
    reason: str | None,
    now: datetime,
    stops_as: AuditState | None = None,
) -> None:
    """Apply a decision of the auditor. Raises IllegalTransitionError if it is out of date."""
    audit = await uow.of(AuditStore).get(audit_id, for_update=True)
    audit = msgspec.structs.replace(moved(audit, to, now=now, reason=reason), stops_as=stops_as or audit.stops_as)
    await _save(uow, audit)


async def say_why_it_waits(uow: UnitOfWork, audit_id: str, reason: str) -> None:
    audit = await uow.of(AuditStore).get(audit_id, for_update=True)
    if audit.state is AuditState.PENDING and audit.reason != reason:
        await uow.of(AuditStore).save(msgspec.structs.replace(audit, reason=reason))
        notify_audit(uow, audit)


async def audit_of_token(uow: UnitOfWork, secret: str) -> str | None:
    return await uow.of(AuditStore).find_by_token(sha256_of(secret))


def check_scope(audit_id: str, *, named: str) -> None:
    """Raise ForbiddenError if a driver names another audit than its token's."""
    if audit_id != named:
        raise ForbiddenError("the token belongs to another audit")


async def claim_audit(uow: UnitOfWork, claim: wire.AuditClaim, *, now: datetime) -> ClaimAnswer:
    """Record the driver's claim. It is refused if the audit has ended, is being stopped, or has another driver.

    Raises InvalidError for invalid process ids.
    """
    refuse_no_process(claim.jvm_pid, claim.python_pid)
    claim = storable(claim)
    audit = await uow.of(AuditStore).get(claim.audit_id, for_update=True)
    if audit.application_id == claim.application_id and not audit.has_ended:
        return ClaimAnswer(granted=True)
    if audit.application_id is not None:
        return ClaimAnswer(granted=False, reason=f"it is claimed by application {audit.application_id}")
    if audit.state not in (AuditState.SUBMITTING, AuditState.RUNNING):
        return ClaimAnswer(granted=False, reason=f"the audit is {audit.state}")
    if audit.state is AuditState.SUBMITTING:
        audit = moved(audit, AuditState.RUNNING, now=now)
    await uow.of(AuditStore).save(
        msgspec.structs.replace(
            audit,
            application_id=claim.application_id,
            host=claim.host,
            jvm_pid=claim.jvm_pid,
            python_pid=claim.python_pid,
            process_started_at=moment_of_ms(claim.process_started_at_ms),
            submitted_at=audit.submitted_at or now,
        )
    )
    notify_audit(uow, audit)
    return ClaimAnswer(granted=True)


async def receive_progress(uow: UnitOfWork, told: wire.AuditProgressReport, *, now: datetime) -> wire.AuditAnswer:
    """Store the progress, and answer whether the audit is still wanted."""
    told = storable(told)
    audit = await uow.of(AuditStore).get(told.audit_id)
    if audit.application_id != told.application_id or audit.state is not AuditState.RUNNING:
        return wire.AuditAnswer(is_wanted=False)
    progress = AuditProgress(
        stage=told.stage,
        tasks_done=max(0, told.tasks_done),
        tasks=max(0, told.tasks),
        offsets=max(0, told.offsets),
        heard_at=now,
    )
    await uow.of(AuditStore).save_progress(audit.id, progress)
    before = audit.progress
    if before is None or msgspec.structs.replace(before, heard_at=now) != progress:
        uow.notify(NOTICE, audit.id)
    return wire.AuditAnswer(is_wanted=True)


async def receive_outcome(uow: UnitOfWork, outcome: wire.AuditOutcome, *, now: datetime) -> None:
    """Store the outcome of an audit. It has no effect once the audit has ended.

    Raises ConflictError if it does not belong to this audit.
    """
    outcome = storable(outcome)
    audit = await uow.of(AuditStore).get(outcome.audit_id, for_update=True)
    if audit.has_ended:
        return
    if audit.application_id is not None and outcome.application_id not in ("", audit.application_id):
        raise ConflictError(f"audit {audit.id} belongs to application {audit.application_id}")
    if outcome.kind is wire.AuditEnd.DONE:
        if outcome.result is None or outcome.result.audit_id != audit.id:
            raise ConflictError(f"the outcome of audit {audit.id} is done, but has no result of it")
        done = msgspec.structs.replace(moved(audit, AuditState.DONE, now=now), result=possible(outcome.result))
        await _save(uow, done)
        await _judge(uow, done, done.result or outcome.result, now=now)
        return
    to = audit.stops_as or _ENDS[outcome.kind]
    if to is AuditState.STOPPED and audit.state is not AuditState.STOPPING:
        # No server stopped it, so its process received a signal from elsewhere.
        to = AuditState.FAILED
    await _save(uow, moved(audit, to, now=now, reason=audit.reason or outcome.message or "it gave no reason"))


async def _judge(uow: UnitOfWork, audit: Audit, result: AuditResult, *, now: datetime) -> None:
    match verdict(result):
        case AuditVerdict.BROKEN:
            cluster = await uow.of(ClusterStore).get(audit.cluster)
            alert = audit_alert(audit, result, kafka_cluster_id=cluster.kafka_cluster_id, now=now)
            await alerts.tell(uow, alert)
        # An audit on request may have another window or id, so it does not count for the plan's windows.
        case AuditVerdict.CLEAN | AuditVerdict.EMPTY if audit.is_scheduled and audit.span is not None:
            of_comparisons = audit.comparison is not None
            plan = await uow.of(AuditPlanStore).find(audit.pipeline, of_comparisons=of_comparisons, for_update=True)
            until = audit.span[1]
            if plan is not None and (plan.shown_until is None or plan.shown_until < until):
                await uow.of(AuditPlanStore).save(msgspec.structs.replace(plan, shown_until=until))
        case _:
            pass


async def _save(uow: UnitOfWork, audit: Audit) -> None:
    await uow.of(AuditStore).save(audit)
    if audit.has_ended:
        await uow.of(AuditStore).count(audit.pipeline, counted(audit))
    notify_audit(uow, audit)
