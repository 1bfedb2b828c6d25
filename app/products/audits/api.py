"""REST: audits of pipelines, and audit plans."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.runs.api.run_schemas import Reason
from app.core.wiring import WiringDep
from app.kit import access
from app.kit.access import Principal, Verb
from app.kit.page import Page
from app.kit.web.api.bodies import Answer
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import IdInPath, Name, NameInPath, Why
from app.kit.web.dependencies import Uow
from app.products.audits import schemas as schemas
from app.products.audits.audit import Audit
from app.products.audits.comparison import Comparison
from app.products.audits.plan import AuditPlan
from app.products.audits.schemas import AuditGiven, AuditPlanGiven, ComparisonGiven, ComparisonPlanGiven
from app.products.audits.service import asking, planning
from app.products.audits.service.asking import Wish

router = APIRouter(tags=["audits"])
NO_REASON = Reason()


@router.post(
    "/pipelines/{name}/audits", status_code=201, response_model=Shown[Audit], responses=refusals(404, 409, 413)
)
async def start_audit(
    name: NameInPath,
    body: AuditGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_AUDIT)],
) -> Response:
    """Request an audit, which begins as soon as the pipeline has passed the window. A pipeline has one at a time."""

    async def act() -> Audit:
        wish = Wish(
            window=body.window,
            id_place=body.id_place,
            source_id_place=body.source_id_place,
            padding_s=body.padding_s,
            tolerance_s=body.tolerance_s,
        )
        return await asking.ask_audit(uow, pipeline=name, wish=wish, by=by, why=body.why, now=wiring.clock.now())

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.post(
    "/pipelines/{name}/comparisons", status_code=201, response_model=Shown[Audit], responses=refusals(404, 409, 413)
)
async def start_comparison(
    name: NameInPath,
    body: ComparisonGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_AUDIT)],
) -> Response:
    """Request a comparison of outputs with those of another system. It is an audit, and is listed and stopped as one.

    Another baseline than the plan's requires the role author.
    """

    async def act() -> Audit:
        wish = Wish(
            window=body.window,
            is_comparison=True,
            comparison=body.comparison,
            id_place=body.id_place,
            source_id_place=body.source_id_place,
            padding_s=body.padding_s,
            tolerance_s=body.tolerance_s,
        )
        return await asking.ask_audit(
            uow,
            pipeline=name,
            wish=wish,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
            allowed=wiring.allowed_options,
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/audits", responses=refusals(404))
async def list_audits(
    uow: Uow,
    _: Viewer,
    pipeline: Annotated[Name | None, Query()] = None,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[Audit]]:
    """List audits of all pipelines or of one, newest first, without their examples."""
    return await asking.list_audits(uow, pipeline=pipeline, after=after, limit=limit)


@router.get("/audits/{audit_id}", response_model=Shown[Audit], responses=refusals(404))
async def get_audit(
    audit_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Viewer,
    *,
    with_ids: Annotated[
        bool, Query(description="Include the ids of the examples. Requires the role operator, and is logged.")
    ] = False,
) -> Audit | Answer:
    """Return one audit with its examples."""
    if with_ids:
        access.require(by, Verb.READ_RECORDS)
    audit = await asking.get_audit(uow, audit_id)
    if with_ids:
        await asking.note_look_at_ids(uow, audit, by=by, now=wiring.clock.now())
        await uow.commit()
    return schemas.with_ids(audit) if with_ids else audit


@router.post("/audits/{audit_id}/stop", response_model=Shown[Audit], responses=refusals(404, 409, 413))
async def stop_audit(
    audit_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.STOP_AUDIT)],
    body: Reason = NO_REASON,
) -> Response:
    """Stop an audit, which then has no result."""

    async def act() -> Audit:
        return await asking.stop_audit(uow, audit_id, by=by, why=body.why, now=wiring.clock.now())

    answer = await once.do(act)
    await uow.commit()
    return answer


@router.get("/pipelines/{name}/audit-plan", responses=refusals(404))
async def get_audit_plan(name: NameInPath, uow: Uow, _: Viewer) -> Shown[AuditPlan]:
    """Return the pipeline's audit plan: the id of its records, and the schedule."""
    return await planning.get_plan(uow, name)


@router.put("/pipelines/{name}/audit-plan", responses=refusals(404, 413))
async def change_audit_plan(
    name: NameInPath,
    body: AuditPlanGiven,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.CHANGE_AUDIT_PLAN)],
) -> Shown[AuditPlan]:
    """Create or change the pipeline's audit plan. It is not part of a revision, so nothing restarts."""
    plan = await _changed_plan(uow, wiring, name, body, by)
    await uow.commit()
    return plan


@router.delete("/pipelines/{name}/audit-plan", status_code=204, responses=refusals(404))
async def remove_audit_plan(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.CHANGE_AUDIT_PLAN)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Remove the audit plan; existing audits are kept."""
    await planning.remove_plan(uow, pipeline=name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()


@router.get("/pipelines/{name}/comparison-plan", responses=refusals(404))
async def get_comparison_plan(name: NameInPath, uow: Uow, _: Annotated[Principal, may(Verb.VIEW)]) -> Shown[AuditPlan]:
    """Return the pipeline's comparison plan: the other system's output, the id of records, and the schedule."""
    return await planning.get_plan(uow, name, of_comparisons=True)


@router.put("/pipelines/{name}/comparison-plan", responses=refusals(404, 413))
async def change_comparison_plan(
    name: NameInPath,
    body: ComparisonPlanGiven,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.CHANGE_AUDIT_PLAN)],
) -> Shown[AuditPlan]:
    """Create or change the pipeline's comparison plan."""
    plan = await _changed_plan(uow, wiring, name, body, by, comparison=body.comparison)
    await uow.commit()
    return plan


@router.delete("/pipelines/{name}/comparison-plan", status_code=204, responses=refusals(404))
async def remove_comparison_plan(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.CHANGE_AUDIT_PLAN)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Remove the comparison plan; existing comparisons are kept."""
    await planning.remove_plan(uow, pipeline=name, by=by, why=why, now=wiring.clock.now(), of_comparisons=True)
    await uow.commit()


async def _changed_plan(
    uow: Uow, wiring: WiringDep, name: str, body: AuditPlanGiven, by: Principal, comparison: Comparison | None = None
) -> AuditPlan:
    return await planning.change_plan(
        uow,
        pipeline=name,
        id_place=body.id_place,
        source_id_place=body.source_id_place,
        padding_s=body.padding_s,
        every_s=body.every_s,
        tolerance_s=body.tolerance_s,
        by=by,
        why=body.why,
        now=wiring.clock.now(),
        comparison=comparison,
        allowed=wiring.allowed_options,
    )
