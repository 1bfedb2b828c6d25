"""Audit plans, and the windows that are due."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.access.service import command_log
from app.core.allow_lists.options import AllowedOptions
from app.core.pipelines.store import PipelineStore
from app.kit.access import AUDITOR, Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError, NotFoundError
from app.kit.storable import moment_of_ms
from app.products.audits.audit import Audit, AuditState, counter_of
from app.products.audits.comparison import Comparison
from app.products.audits.plan import AuditPlan, begin_of_plan, due_windows, plan_problems
from app.products.audits.service.asking import NOTHING_MORE, Wish, ask_audit, id_problems, notify_audit
from app.products.audits.specification import IdPlace, TimeWindow
from app.products.audits.store import AuditPlanStore, AuditStore


async def change_plan(
    uow: UnitOfWork,
    *,
    pipeline: str,
    id_place: IdPlace,
    source_id_place: IdPlace | None,
    padding_s: int,
    every_s: int | None,
    tolerance_s: int,
    by: Principal,
    why: str | None,
    now: datetime,
    comparison: Comparison | None = None,
    allowed: AllowedOptions = NOTHING_MORE,
) -> AuditPlan:
    """Create or change the pipeline's plan: for comparisons if there is one, else for audits.

    Raises InvalidError with all problems.

    With another window length, the schedule begins again at the last multiple of it; earlier windows are not audited.
    """
    require(by, Verb.CHANGE_AUDIT_PLAN)
    record = await uow.of(PipelineStore).get(pipeline)
    problems = [
        *plan_problems(padding_s=padding_s, every_s=every_s, tolerance_s=tolerance_s),
        *id_problems(id_place, source_id_place, definition=record.definition, comparison=comparison, allowed=allowed),
    ]
    if problems:
        raise InvalidError(f"{pipeline} cannot be audited: {problems[0].message}", problems=problems)
    of_comparisons = comparison is not None
    before = await uow.of(AuditPlanStore).find(pipeline, of_comparisons=of_comparisons, for_update=True)
    goes_on = before is not None and before.every_s == every_s
    plan = AuditPlan(
        pipeline=pipeline,
        id_place=id_place,
        source_id_place=source_id_place,
        padding_s=padding_s,
        every_s=every_s,
        tolerance_s=tolerance_s,
        decided_until=before.decided_until if before is not None and goes_on else begin_of_plan(now, every_s),
        shown_until=None if before is None else before.shown_until,
        changed_at=now,
        changed_by=by.name,
        comparison=comparison,
    )
    await uow.of(AuditPlanStore).save(plan)
    every = "on request only" if every_s is None else f"in windows of {every_s:,} s"
    await command_log.record(
        uow,
        by=by,
        verb=Verb.CHANGE_AUDIT_PLAN,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"{'audited' if comparison is None else 'compared'} {every}",
        details=msgspec.to_builtins(
            {"id": id_place, "source_id": source_id_place, "padding_s": padding_s, "every_s": every_s}
            | ({} if comparison is None else {"comparison": comparison})
        ),
    )
    uow.notify("pipeline", pipeline)
    return plan


async def remove_plan(
    uow: UnitOfWork, *, pipeline: str, by: Principal, why: str | None, now: datetime, of_comparisons: bool = False
) -> None:
    """Remove the plan for audits, or for comparisons; existing audits are kept. Raises NotFoundError."""
    require(by, Verb.CHANGE_AUDIT_PLAN)
    await get_plan(uow, pipeline, of_comparisons=of_comparisons)
    await uow.of(AuditPlanStore).remove(pipeline, of_comparisons=of_comparisons)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.CHANGE_AUDIT_PLAN,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"the {'comparison' if of_comparisons else 'audit'} plan was removed",
    )
    uow.notify("pipeline", pipeline)


async def get_plan(uow: UnitOfWork, pipeline: str, *, of_comparisons: bool = False) -> AuditPlan:
    """Return the pipeline's plan for audits, or for comparisons. Raises NotFoundError."""
    await uow.of(PipelineStore).get(pipeline)
    plan = await uow.of(AuditPlanStore).find(pipeline, of_comparisons=of_comparisons)
    if plan is None:
        noun, command = ("comparison", "compare") if of_comparisons else ("audit", "audits plan")
        raise NotFoundError(f"pipeline {pipeline} has no {noun} plan; `fenceline {command} {pipeline}` creates one")
    return plan


async def take_due_window(
    uow: UnitOfWork,
    *,
    pipeline: str,
    now: datetime,
    of_comparisons: bool = False,
    allowed: AllowedOptions = NOTHING_MORE,
) -> Audit | None:
    """Request the audit or the comparison that is due, if any, and record missed windows as skipped.

    The window waits while the pipeline has an audit that has not ended.
    """
    plan = await uow.of(AuditPlanStore).find(pipeline, of_comparisons=of_comparisons, for_update=True)
    windows = None if plan is None else due_windows(plan, now=now)
    if plan is None or windows is None or await uow.of(AuditStore).find_living(pipeline) is not None:
        return None
    if windows.missed is not None:
        await _skip(uow, plan, windows.missed, now=now)
    wish = Wish(window=windows.due, is_comparison=of_comparisons)
    audit = await ask_audit(
        uow, pipeline=pipeline, wish=wish, by=AUDITOR, why="due by the plan", now=now, allowed=allowed
    )
    await uow.of(AuditPlanStore).save(msgspec.structs.replace(plan, decided_until=moment_of_ms(windows.due.end_ms)))
    return audit


async def _skip(uow: UnitOfWork, plan: AuditPlan, missed: TimeWindow, *, now: datetime) -> None:
    record = await uow.of(PipelineStore).get(plan.pipeline)
    audit = await uow.of(AuditStore).add(
        Audit(
            id="",
            pipeline=plan.pipeline,
            cluster=record.cluster,
            revision=record.current_revision,
            state=AuditState.SKIPPED,
            since=now,
            asked_at=now,
            asked_by=AUDITOR.name,
            is_scheduled=True,
            window=missed,
            id_place=plan.id_place,
            source_id_place=plan.source_id_place,
            padding_s=plan.padding_s,
            comparison=plan.comparison,
            wait_until=now,
            reason="a newer window was due before it could be audited: the previous audit was still running, or no "
            "server was",
            ended_at=now,
        )
    )
    await uow.of(AuditStore).count(plan.pipeline, {f"{counter_of(audit)}_{AuditState.SKIPPED}": 1})
    notify_audit(uow, audit)
