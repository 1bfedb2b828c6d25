"""Audits of a drill's or a migration's time, by the plan of its pipeline, launched like any other."""

from __future__ import annotations

from datetime import datetime

from app.core.audit_figures import AuditFigures, AuditWord
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError
from app.products.audits.audit import Audit, AuditState
from app.products.audits.plan import time_window
from app.products.audits.result import AuditResult, AuditVerdict, verdict
from app.products.audits.service.asking import Wish, ask_audit, stop_audit
from app.products.audits.store import AuditPlanStore, AuditStore


class PlannedAudits:
    """See app/core/asked_audits.py, AskedAudits. The pipeline's plan names the id of its records."""

    async def ask(
        self,
        uow: UnitOfWork,
        *,
        pipeline: str,
        begin: datetime,
        end: datetime,
        by: Principal,
        why: str,
        now: datetime,
    ) -> AuditWord:
        if await uow.of(AuditPlanStore).find(pipeline) is None:
            return AuditWord(
                no_audit=f"pipeline {pipeline} has no audit plan, which says by which id its records are known"
            )
        wish = Wish(window=time_window(begin, end))
        try:
            audit = await ask_audit(uow, pipeline=pipeline, wish=wish, by=by, why=why, now=now)
        except InvalidError as error:
            return AuditWord(no_audit=error.message)
        return AuditWord(audit_id=audit.id)

    async def word(self, uow: UnitOfWork, audit_id: str) -> AuditWord:
        return word_of(await uow.of(AuditStore).get(audit_id))

    async def stop(self, uow: UnitOfWork, audit_id: str, *, by: Principal, why: str, now: datetime) -> None:
        if not (await uow.of(AuditStore).get(audit_id, for_update=True)).has_ended:
            await stop_audit(uow, audit_id, by=by, why=why, now=now)

    async def is_waiting(self, uow: UnitOfWork, audit_id: str) -> bool:
        return (await uow.of(AuditStore).get(audit_id)).state is AuditState.PENDING


def word_of(audit: Audit) -> AuditWord:
    """Return the state of an audit, over or not, for the product that asked for it."""
    if not audit.has_ended:
        return AuditWord(audit_id=audit.id)
    if audit.result is None:
        why = f": {audit.reason}" if audit.reason else ""
        return AuditWord(audit_id=audit.id, no_audit=f"its audit is {audit.state}{why}")
    return AuditWord(audit_id=audit.id, figures=figures_of(audit.result))


def figures_of(result: AuditResult) -> AuditFigures:
    counts = result.counts
    return AuditFigures(
        audit_id=result.audit_id,
        read=counts.inputs,
        expected=counts.expected,
        lost=counts.lost.ids,
        duplicated=counts.duplicated.ids,
        unexpected=counts.unexpected.ids,
        dangling=counts.dangling.ids,
        incomplete=_incomplete(result),
    )


def _incomplete(result: AuditResult) -> str:
    match verdict(result):
        case AuditVerdict.EMPTY:
            return "the pipeline read and wrote nothing in the drill's time"
        case AuditVerdict.NOT_SHOWN:
            gaps = [gap.sentence for gap in result.gaps[:1]]
            return f"not all could be read or judged{''.join(f': {sentence}' for sentence in gaps)}"
        case AuditVerdict.BROKEN | AuditVerdict.CLEAN:
            return ""
