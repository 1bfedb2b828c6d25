"""Request, read and stop audits. These functions write rows only, which the auditor loop acts on."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.access.service import command_log
from app.core.allow_lists.options import AllowedOptions
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.transforms import field_path
from app.kit.access import Principal, PrincipalKind, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, Problem
from app.kit.page import Page, checked_limit
from app.products.audits.audit import Audit, AuditState, counter_of, moved
from app.products.audits.comparison import Comparison, comparison_problems
from app.products.audits.doubts import revision_to_judge_by, span_in_force
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, AuditPlan, plan_problems, window_problems
from app.products.audits.recomputation import recomputation_problems
from app.products.audits.specification import HeaderId, IdPlace, JsonField, OffsetWindow, Window, sink_topics_of
from app.products.audits.store import AuditPlanStore, AuditStore

NOTHING_MORE = AllowedOptions()
NOTICE = "audit"
"""Without settings of an administrator a comparison may read no files and no database."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a requested audit; None: from the pipeline's plan, else from the defaults.

    is_comparison: a comparison is requested, by the pipeline's plan for comparisons where `comparison` is None.
    """

    window: Window
    is_comparison: bool = False
    comparison: Comparison | None = None
    id_place: IdPlace | None = None
    source_id_place: IdPlace | None = None
    padding_s: int | None = None
    tolerance_s: int | None = None


async def ask_audit(
    uow: UnitOfWork,
    *,
    pipeline: str,
    wish: Wish,
    by: Principal,
    why: str | None,
    now: datetime,
    allowed: AllowedOptions = NOTHING_MORE,
) -> Audit:
    """Request an audit or a comparison, which begins as soon as the pipeline has passed the window.

    A comparison that differs from the plan's requires the permission to change plans, since it may read other data. A
    recomputation reads the pipeline's own topics only.

    Raises InvalidError with all problems, ConflictError if the pipeline has an audit that has not ended.
    """
    require(by, Verb.START_AUDIT)
    record = await uow.of(PipelineStore).get(pipeline)
    plan = await uow.of(AuditPlanStore).find(pipeline, of_comparisons=wish.is_comparison)
    comparison = _comparison(wish, plan, pipeline)
    is_recomputation = comparison is not None and comparison.is_recomputation
    if comparison is not None and not is_recomputation and (plan is None or comparison != plan.comparison):
        require(by, Verb.CHANGE_AUDIT_PLAN)
    id_place, source_id_place = places_of(wish, plan)
    padding_s = _first(wish.padding_s, plan and plan.padding_s, DEFAULT_PADDING_S)
    tolerance_s = _first(wish.tolerance_s, plan and plan.tolerance_s, DEFAULT_TOLERANCE_S)
    if id_place is None:
        raise InvalidError(
            f"the audit of {pipeline} requires the place of the id: a field of the value, a header, or the key. An "
            "audit plan keeps it",
            field="id_place",
        )
    problems = [
        *window_problems(wish.window, now=now),
        *plan_problems(padding_s=padding_s, every_s=None, tolerance_s=tolerance_s),
        *id_problems(id_place, source_id_place, definition=record.definition, comparison=comparison, allowed=allowed),
    ]
    if comparison is not None and not is_recomputation and isinstance(wish.window, OffsetWindow):
        message = "A comparison requires a window of time, since the other system has other offsets"
        problems.append(Problem(field="window", message=message))
    if problems:
        raise InvalidError(f"{pipeline} cannot be audited: {problems[0].message}", problems=problems)
    living = await uow.of(AuditStore).find_living(pipeline)
    if living is not None:
        raise ConflictError(
            f"audit {living.id} of {pipeline}, requested by {living.asked_by}, is {living.state}: wait for its end, "
            "or stop it"
        )
    audit = await uow.of(AuditStore).add(
        Audit(
            id="",
            pipeline=pipeline,
            cluster=record.cluster,
            revision=revision_to_judge_by(
                await uow.of(AuditStore).in_force(pipeline, *span_in_force(wish.window, padding_s=padding_s)),
                # The revision of a live run, not that of the next one.
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
            comparison=comparison,
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


def _comparison(wish: Wish, plan: AuditPlan | None, pipeline: str) -> Comparison | None:
    if not wish.is_comparison:
        return None
    comparison = wish.comparison or (None if plan is None else plan.comparison)
    if comparison is None:
        raise InvalidError(
            f"the comparison of {pipeline} requires a baseline: a topic, files or a table. A comparison plan keeps it",
            field="comparison",
        )
    return comparison


def places_of(wish: Wish, plan: AuditPlan | None) -> tuple[IdPlace | None, IdPlace | None]:
    """Return the places of the id in outputs and inputs. The plan's id implies the plan's place in the input."""
    if plan is None or wish.id_place not in (None, plan.id_place):
        return wish.id_place, wish.source_id_place
    return plan.id_place, wish.source_id_place or plan.source_id_place


async def stop_audit(uow: UnitOfWork, audit_id: str, *, by: Principal, why: str | None, now: datetime) -> Audit:
    """Request the end of an audit, which then has no result. A repeated request has no effect. Raises ConflictError."""
    require(by, Verb.STOP_AUDIT)
    audit = await uow.of(AuditStore).get(audit_id, for_update=True)
    if audit.has_ended:
        raise ConflictError(f"audit {audit_id} of {audit.pipeline} has ended already: it is {audit.state}")
    if audit.state is AuditState.STOPPING:
        return audit
    reason = f"stopped by {by.name}" + (f": {why.strip()}" if why and why.strip() else "")
    to = AuditState.STOPPED if audit.state is AuditState.PENDING else AuditState.STOPPING
    stopped = msgspec.structs.replace(moved(audit, to, now=now, reason=reason), stops_as=AuditState.STOPPED)
    await uow.of(AuditStore).save(stopped)
    if stopped.has_ended:
        await uow.of(AuditStore).count(audit.pipeline, {f"{counter_of(audit)}_{AuditState.STOPPED}": 1})
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
    """Record in the command log that a user read the ids of its examples, which are contents of records."""
    require(by, Verb.READ_RECORDS)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.READ_RECORDS,
        target=f"pipeline:{audit.pipeline}",
        why=None,
        now=now,
        outcome=f"read the ids in audit {audit.id}",
    )


async def list_audits(
    uow: UnitOfWork, *, pipeline: str | None = None, after: str | None = None, limit: int = 50
) -> Page[Audit]:
    """List audits, newest first, with counts and gaps; `get_audit` adds the examples."""
    if pipeline is not None:
        await uow.of(PipelineStore).get(pipeline)
    return await uow.of(AuditStore).list(pipeline=pipeline, after=after, limit=checked_limit(limit))


def id_problems(
    id_place: IdPlace,
    source_id_place: IdPlace | None,
    *,
    definition: PipelineDefinition,
    comparison: Comparison | None,
    allowed: AllowedOptions,
) -> list[Problem]:
    """Return the problems of the places of ids and of a comparison, each with its field."""
    problems: list[Problem] = []
    writes_files = definition.files is not None
    if comparison is not None:
        problems += comparison_problems(
            comparison,
            output_topics=sink_topics_of(definition),
            file_root=None if definition.files is None else definition.files.root,
            allowed=allowed,
        )
        if comparison.is_recomputation:
            problems += recomputation_problems(comparison, definition, id_place, source_id_place)
        if not comparison.is_of_records and not isinstance(source_id_place or id_place, JsonField):
            message = "Records of files and tables have neither key nor headers: name a field, such as json:order.id"
            problems.append(Problem(field="source_id_place", message=message))
    if writes_files and not isinstance(id_place, JsonField):
        message = "Records in files have neither key nor headers: name a field of the value, such as json:order.id"
        problems.append(Problem(field="id_place", message=message))
    for field, place in (("id_place", id_place), ("source_id_place", source_id_place)):
        if isinstance(place, JsonField):
            try:
                field_path.parse(place.path)
            except field_path.FieldPathError as error:
                problems.append(Problem(field=f"{field}.path", message=str(error)))
        if isinstance(place, HeaderId) and not place.name:
            problems.append(Problem(field=f"{field}.name", message="A header requires a name"))
    return problems


def notify_audit(uow: UnitOfWork, audit: Audit) -> None:
    uow.notify(NOTICE, audit.id)
    uow.notify("pipeline", audit.pipeline)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)
