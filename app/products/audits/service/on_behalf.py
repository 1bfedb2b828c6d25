"""The audit at the end of a drill, of the drill's time range and by the pipeline's audit plan."""

from __future__ import annotations

from app.kit.access import DRILLS
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError
from app.products.audits.audit import Audit
from app.products.audits.plan import time_window
from app.products.audits.result import AuditResult, Verdict, verdict
from app.products.audits.service.asking import Wish, ask_audit
from app.products.audits.store import AuditPlanStore, AuditStore
from app.products.drills.drill import AuditFigures, Drill
from app.products.drills.ports import AuditWord


class PlannedAudits:
    """Implement DrillAudits of app/products/drills/ports.py with the id of the pipeline's audit plan."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    async def ask(self, uow: UnitOfWork, drill: Drill) -> AuditWord:
        """Request or check the drill's audit, which waits for the end of any other audit of the pipeline."""
        if drill.audit_id is not None:
            return word_of(await uow.of(AuditStore).get(drill.audit_id))
        try:
            return await self._begin(uow, drill)
        except ConflictError:
            return AuditWord()
        except InvalidError as error:
            return AuditWord(no_audit=error.message)

    async def _begin(self, uow: UnitOfWork, drill: Drill) -> AuditWord:
        if await uow.of(AuditPlanStore).find(drill.pipeline) is None:
            return AuditWord(no_audit=f"pipeline {drill.pipeline} has no audit plan, which names the id of its records")
        now = self._clock.now()
        window = time_window(drill.ordered_at, drill.recovered_at or now)
        audit = await ask_audit(
            uow,
            pipeline=drill.pipeline,
            wish=Wish(window=window),
            by=DRILLS,
            why=f"drill {drill.id}",
            now=now,
        )
        return AuditWord(audit_id=audit.id)


def word_of(audit: Audit) -> AuditWord:
    """Return the state of an audit for its drill."""
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
        case Verdict.EMPTY:
            return "the pipeline read and wrote nothing in the drill's time"
        case Verdict.NOT_SHOWN:
            gaps = [gap.sentence for gap in result.gaps[:1]]
            return f"not all could be read or judged{''.join(f': {sentence}' for sentence in gaps)}"
        case Verdict.BROKEN | Verdict.CLEAN:
            return ""
