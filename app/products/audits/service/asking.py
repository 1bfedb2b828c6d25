"""Audits that somebody asks for, looks at and stops. Only rows are written here; the auditor does what they ask for."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.access.service import command_log
from app.core.pipelines.store import PipelineStore
from app.core.transforms import field_path
from app.kit.access import Principal, PrincipalKind, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, Problem
from app.kit.page import Page, checked_limit
from app.products.audits.audit import Audit, AuditState, moved
from app.products.audits.doubts import revision_to_judge_by, span_in_force
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, AuditPlan, plan_problems, window_problems
from app.products.audits.specification import Header, IdPlace, JsonField, Window
from app.products.audits.store import AuditPlanStore, AuditStore


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit is asked to be; what is None is taken from the pipeline's plan, else from the defaults."""

    window: Window
    id_place: IdPlace | None = None
    source_id_place: IdPlace | None = None
    padding_s: int | None = None
    tolerance_s: int | None = None


async def ask_audit(
    uow: UnitOfWork, *, pipeline: str, wish: Wish, by: Principal, why: str | None, now: datetime
) -> Audit:
    """Ask for an audit; it begins as soon as the pipeline has passed the window.

    Raises InvalidError with all problems, ConflictError while another audit of the pipeline lives.
    """
    require(by, Verb.START_AUDIT)
    record = await uow.of(PipelineStore).get(pipeline)
    plan = await uow.of(AuditPlanStore).find(pipeline)
    id_place, source_id_place = places_of(wish, plan)
    padding_s = _first(wish.padding_s, plan and plan.padding_s, DEFAULT_PADDING_S)
    tolerance_s = _first(wish.tolerance_s, plan and plan.tolerance_s, DEFAULT_TOLERANCE_S)
    if id_place is None:
        raise InvalidError(
            f"say by which id the records of {pipeline} are told from each other: a field of the value, a header, or "
            "the key; or give the pipeline an audit plan, which says it once",
            field="id_place",
        )
    problems = [
        *window_problems(wish.window, now=now),
        *plan_problems(padding_s=padding_s, every_s=None, tolerance_s=tolerance_s),
        *id_problems(id_place, source_id_place, writes_files=record.definition.files is not None),
    ]
    if problems:
        raise InvalidError(f"{pipeline} cannot be audited so: {problems[0].message}", problems=problems)
    living = await uow.of(AuditStore).find_living(pipeline)
    if living is not None:
        raise ConflictError(
            f"audit {living.id} of {pipeline}, which {living.asked_by} asked for, is {living.state}: "
            "wait for it, or stop it"
        )
    audit = await uow.of(AuditStore).add(
        Audit(
            id="",
            pipeline=pipeline,
            cluster=record.cluster,
            revision=revision_to_judge_by(
                await uow.of(AuditStore).in_force(pipeline, *span_in_force(wish.window, padding_s=padding_s)),
                # What a live run does, and not what the next one shall do.
                current=record.current_revision if record.current_run is None else record.current_run.revision,
            ),
            state=AuditState.PENDING,
            since=now,
            asked_at=now,
            asked_by=by.name,
            is_scheduled=by.kind is PrincipalKind.SYSTEM,
            window=wish.window,
            id_place=id_place,
            source_id_place=source_id_place,
            padding_s=padding_s,
            wait_until=now + timedelta(seconds=tolerance_s),
        )
    )
    await command_log.record(
        uow,
        by=by,
        verb=Verb.START_AUDIT,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"audit {audit.id}",
        details={"audit": audit.id, "window": msgspec.to_builtins(wish.window)},
    )
    notify_audit(uow, audit)
    return audit


def places_of(wish: Wish, plan: AuditPlan | None) -> tuple[IdPlace | None, IdPlace | None]:
    """Where outputs and inputs have their id. Whoever names the plan's id means the plan's place in the input, too."""
    if plan is None or wish.id_place not in (None, plan.id_place):
        return wish.id_place, wish.source_id_place
    return plan.id_place, wish.source_id_place or plan.source_id_place


async def stop_audit(uow: UnitOfWork, audit_id: str, *, by: Principal, why: str | None, now: datetime) -> Audit:
    """Ask for its end; nothing is then shown of its window. Asked again, nothing changes. Raises ConflictError."""
    require(by, Verb.STOP_AUDIT)
    audit = await uow.of(AuditStore).get(audit_id, for_update=True)
    if audit.has_ended:
        raise ConflictError(f"audit {audit_id} of {audit.pipeline} is over already: it is {audit.state}")
    if audit.state is AuditState.STOPPING:
        return audit
    reason = f"{by.name} stopped it" + (f": {why.strip()}" if why and why.strip() else "")
    to = AuditState.STOPPED if audit.state is AuditState.PENDING else AuditState.STOPPING
    stopped = msgspec.structs.replace(moved(audit, to, now=now, reason=reason), stops_as=AuditState.STOPPED)
    await uow.of(AuditStore).save(stopped)
    if stopped.has_ended:
        await uow.of(AuditStore).count(audit.pipeline, {f"audits_{AuditState.STOPPED}": 1})
    await command_log.record(
        uow,
        by=by,
        verb=Verb.STOP_AUDIT,
        target=f"pipeline:{audit.pipeline}",
        why=why,
        now=now,
        outcome=f"audit {audit_id}: from {audit.state} to {to}",
        details={"audit": audit_id},
    )
    notify_audit(uow, audit)
    return stopped


async def get_audit(uow: UnitOfWork, audit_id: str) -> Audit:
    return await uow.of(AuditStore).get(audit_id)


async def note_look_at_ids(uow: UnitOfWork, audit: Audit, *, by: Principal, now: datetime) -> None:
    """Keep in the command log that somebody had the ids of its examples shown: they are contents of records."""
    require(by, Verb.READ_RECORDS)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.READ_RECORDS,
        target=f"pipeline:{audit.pipeline}",
        why=None,
        now=now,
        outcome=f"had the ids that audit {audit.id} found shown",
    )


async def list_audits(
    uow: UnitOfWork, *, pipeline: str | None = None, after: str | None = None, limit: int = 50
) -> Page[Audit]:
    """Newest first, with counts and gaps of what they found; their examples come with each alone."""
    if pipeline is not None:
        await uow.of(PipelineStore).get(pipeline)
    return await uow.of(AuditStore).list(pipeline=pipeline, after=after, limit=checked_limit(limit))


def id_problems(id_place: IdPlace, source_id_place: IdPlace | None, *, writes_files: bool) -> list[Problem]:
    """What is wrong with the places of ids, each at its own field."""
    problems: list[Problem] = []
    if writes_files and not isinstance(id_place, JsonField):
        message = "records in files have neither a key nor headers: name a field of the value, such as json:order.id"
        problems.append(Problem(field="id_place", message=message))
    for field, place in (("id_place", id_place), ("source_id_place", source_id_place)):
        if isinstance(place, JsonField):
            try:
                field_path.parse(place.path)
            except field_path.FieldPathError as error:
                problems.append(Problem(field=f"{field}.path", message=str(error)))
        if isinstance(place, Header) and not place.name:
            problems.append(Problem(field=f"{field}.name", message="a header needs a name"))
    return problems


def notify_audit(uow: UnitOfWork, audit: Audit) -> None:
    uow.notify("audit", audit.id)
    uow.notify("pipeline", audit.pipeline)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)
