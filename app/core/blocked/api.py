"""Explain blocked consumers, and end a transaction by hand: after a preview, and refused while its owner may end it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.blocked.diagnosis import DiagnosisKind, Explanation
from app.core.blocked.ending import EndingPlan, EndPlan
from app.core.blocked.readers import BlockedReport
from app.core.blocked.schemas import EndGiven, EndTarget, FenceGiven, FenceTarget
from app.core.blocked.service import operating
from app.core.blocked.service.ending import EndedTransaction, FenceResult
from app.core.clusters import service as clusters
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/clusters/{name}", tags=["stuck"])
Target = Annotated[
    str,
    Query(
        min_length=1,
        max_length=300,
        pattern=r"^[^\x00]+$",
        description="A group, a topic, or TOPIC:PARTITION.",
        examples=["delayed-flights:0"],
    ),
]


@router.get("/stuck", responses=refusals(404))
async def explain_stuck(
    name: NameInPath,
    target: Target,
    wiring: WiringDep,
    _: Viewer,
    kind: Annotated[DiagnosisKind | None, Query(description="The kind of `target`, where names are equal.")] = None,
) -> Shown[Explanation]:
    """Explain why a group, or the consumers of a topic or partition, are blocked. The request asks the brokers."""
    return await operating.explain(
        wiring.unit_of_work,
        wiring.transactions,
        cluster=name,
        target=target,
        kind=kind,
        observations=wiring.observations,
        lags=wiring.lags,
        clock=wiring.clock,
    )


@router.get("/blocked-readers", responses=refusals(404))
async def get_blocked_readers(name: NameInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> Shown[BlockedReport]:
    """Return the transactions that block readers for 10 seconds or longer, as this server's observer sees them."""
    await clusters.get_cluster(uow, name)
    return wiring.observations.blocked_of(name)


@router.post("/transactions/preview-fence", responses=refusals(404, 413))
async def preview_fence(
    name: NameInPath,
    body: FenceTarget,
    wiring: WiringDep,
    _: Annotated[Principal, may(Verb.FENCE_TRANSACTION)],
) -> Shown[EndingPlan]:
    """Preview a fence of the id, with the objections against it. Nothing is changed."""
    return await operating.preview_fence(
        wiring.unit_of_work,
        wiring.transactions,
        cluster=name,
        transactional_id=body.transactional_id,
        observations=wiring.observations,
        clock=wiring.clock,
    )


@router.post("/transactions/fence", response_model=Shown[FenceResult], responses=refusals(404, 409, 413))
async def fence(
    name: NameInPath,
    body: FenceGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.FENCE_TRANSACTION)],
) -> Response:
    """Abort the open transaction of a transactional id, and fence its current producer (InitProducerId)."""

    async def act() -> FenceResult:
        return await operating.fence(
            uow,
            wiring.unit_of_work,
            wiring.transactions,
            cluster=name,
            transactional_id=body.transactional_id,
            force=body.force,
            by=by,
            why=body.why,
            observations=wiring.observations,
            clock=wiring.clock,
        )

    answer = await once.do(act)
    await uow.commit()
    return answer


@router.post("/transactions/preview-end", responses=refusals(404, 413))
async def preview_end(
    name: NameInPath, body: EndTarget, wiring: WiringDep, _: Annotated[Principal, may(Verb.END_TRANSACTION)]
) -> Shown[EndPlan]:
    """Preview an abort marker in this partition, with the objections against it. Nothing is changed."""
    return await operating.preview_end(
        wiring.unit_of_work,
        wiring.transactions,
        cluster=name,
        topic=body.topic,
        partition=body.partition,
        start_offset=body.start_offset,
        observations=wiring.observations,
        clock=wiring.clock,
    )


@router.post("/transactions/end", response_model=Shown[EndedTransaction], responses=refusals(404, 409, 412, 413))
async def end(
    name: NameInPath,
    body: EndGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.END_TRANSACTION)],
) -> Response:
    """End a hanging transaction in one partition by an abort marker (WriteTxnMarkers)."""

    async def act() -> EndedTransaction:
        return await operating.end(
            uow,
            wiring.unit_of_work,
            wiring.transactions,
            cluster=name,
            topic=body.topic,
            partition=body.partition,
            expected=(body.producer_id, body.producer_epoch, body.start_offset),
            force=body.force,
            by=by,
            why=body.why,
            observations=wiring.observations,
            clock=wiring.clock,
        )

    answer = await once.do(act)
    await uow.commit()
    return answer
