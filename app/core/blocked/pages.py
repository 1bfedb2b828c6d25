"""Blocked consumers: the chain of reasons of a group, a topic or a partition, and the two ways to end a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.blocked.chain import as_text, clause
from app.core.blocked.diagnosis import AdviceVerdict, ChainLink, Diagnosis, DiagnosisKind, Explanation
from app.core.blocked.service import operating
from app.core.clusters import service as clusters
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError
from app.kit.storable import moment_of_ms
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Fencer = Annotated[Principal, may(Verb.FENCE_TRANSACTION)]
Ender = Annotated[Principal, may(Verb.END_TRANSACTION)]
Cluster = Annotated[str, Query(max_length=100)]
Target = Annotated[str, Query(max_length=300)]
Why = Annotated[str, Form()]
Force = Annotated[bool, Form()]
_QUIET = (AdviceVerdict.FREE, AdviceVerdict.ONLY_MARKERS)


def looking_at(wiring: Wiring, *, cluster: str, target: str, kind: DiagnosisKind | None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now, uow
        # A unit of work of its own: the view's would keep its connection while the brokers are asked.
        async with wiring.unit_of_work() as fresh:
            registered = [one.name for one in await clusters.list_clusters(fresh)]
        found: Explanation | None = None
        problem: str | None = None
        if cluster and target:
            try:
                found = await operating.explain(
                    wiring.unit_of_work,
                    wiring.transactions,
                    cluster=cluster,
                    target=target,
                    kind=kind,
                    observations=wiring.observations,
                    lags=wiring.lags,
                    clock=wiring.clock,
                )
            except FencelineError as error:
                # The form keeps its input; an unreachable broker may answer the next time.
                problem = error.message
        context = {
            "clusters": registered,
            "cluster": cluster or (registered[0] if registered else ""),
            "target": target,
            "kind": kind or "",
            "problem": problem,
            "found": None if found is None else _shown(found),
            "blocked": (blocked := wiring.observations.blocked()),
            "causes": [one for report in blocked for one in report.causes],
            "is_known": bool(blocked) and all(report.at_ms >= 0 and not report.problem for report in blocked),
        }
        # The brokers' answers do not depend on changes of the database, so the page is refreshed every two seconds.
        return Screen(template="stuck/detail", title="Blocked readers", context=context, concerns=frozenset())

    return look


def _shown(found: Explanation) -> Mapping[str, Any]:
    noisy = [one for one in found.partitions if one.verdict not in _QUIET]
    is_one = len(found.partitions) == 1
    return {
        "headline": found.headline,
        "verdict": found.verdict,
        "is_one": is_one,
        "links": [_link(link) for link in found.links],
        "partitions": [_told(one) for one in (found.partitions if is_one else noisy)],
        "quiet": 0 if is_one else len(found.partitions) - len(noisy),
    }


def _told(one: Diagnosis) -> Mapping[str, Any]:
    return {
        "subject": one.subject,
        "verdict": one.verdict,
        "headline": one.headline,
        "links": [_link(link) for link in one.links],
        "advice": one.advice,
        "commands": one.commands,
        "text": as_text(one),
        # A transaction that a coordinator knows is fenced, another one is ended.
        "fence": one.holder
        if one.holder and one.holder.transactional_id and one.verdict is not AdviceVerdict.END
        else None,
        "end": one.holder if one.holder and one.verdict is AdviceVerdict.END else None,
    }


def _link(link: ChainLink) -> Mapping[str, Any]:
    at = moment_of_ms(link.seen_ms)
    return {"sentence": clause(link), "source": link.source, "at": at}


@router.get("/stuck")
@router.get("/stuck/stream")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    cluster: Cluster = "",
    target: Target = "",
    kind: DiagnosisKind | None = None,
) -> Response:
    look = looking_at(wiring, cluster=cluster, target=target.strip(), kind=kind)
    return await screen.live(request, wiring, by, look)


@router.get("/stuck/fence")
async def show_fence(
    request: Request,
    wiring: WiringDep,
    by: Fencer,
    cluster: Cluster,
    transactional_id: Annotated[str, Query(alias="id", min_length=1, max_length=1000)],
    target: Target = "",
) -> Response:
    """Preview a fence."""
    return await screen.page(request, wiring, by, _fence_look(wiring, cluster, transactional_id, target), is_live=False)


def _fence_look(wiring: Wiring, cluster: str, transactional_id: str, target: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now, uow
        plan = await operating.preview_fence(
            wiring.unit_of_work,
            wiring.transactions,
            cluster=cluster,
            transactional_id=transactional_id,
            observations=wiring.observations,
            clock=wiring.clock,
        )
        fields = {"cluster": cluster, "id": transactional_id, "target": target}
        context = {"verb": "Fence", "subject": transactional_id, "plan": plan, "action": "/stuck/fence"}
        return _plan_screen(context, fields=fields, cluster=cluster, target=target)

    return look


@router.post("/stuck/fence")
async def fence(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Fencer,
    cluster: Annotated[str, Form()],
    transactional_id: Annotated[str, Form(alias="id")],
    target: Annotated[str, Form()] = "",
    why: Why = "",
    force: Force = False,
) -> Response:
    try:
        await operating.fence(
            uow,
            wiring.unit_of_work,
            wiring.transactions,
            cluster=cluster,
            transactional_id=transactional_id,
            force=force,
            by=by,
            why=why or None,
            observations=wiring.observations,
            clock=wiring.clock,
        )
        await uow.commit()
    except FencelineError as error:
        look = _fence_look(wiring, cluster, transactional_id, target)
        return await screen.page(request, wiring, by, look, is_live=False, refused=error)
    return screen.see("stuck", said="fenced", cluster=cluster, target=target)


@router.get("/stuck/end")
async def show_end(
    request: Request,
    wiring: WiringDep,
    by: Ender,
    cluster: Cluster,
    topic: Annotated[str, Query(min_length=1, max_length=249)],
    partition: Annotated[int, Query(ge=0, lt=2**31)],
    start_offset: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    target: Target = "",
) -> Response:
    """Preview an abort marker."""
    look = _end_look(wiring, cluster, topic, partition, start_offset, target)
    return await screen.page(request, wiring, by, look, is_live=False)


def _end_look(wiring: Wiring, cluster: str, topic: str, partition: int, start_offset: int | None, target: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now, uow
        plan = await operating.preview_end(
            wiring.unit_of_work,
            wiring.transactions,
            cluster=cluster,
            topic=topic,
            partition=partition,
            start_offset=start_offset,
            observations=wiring.observations,
            clock=wiring.clock,
        )
        fields: dict[str, object] = {"cluster": cluster, "topic": topic, "partition": partition, "target": target}
        if plan.target is not None:
            fields |= {
                "producer_id": plan.target.producer_id,
                "producer_epoch": plan.target.producer_epoch,
                "start_offset": plan.target.start_offset,
            }
        context = {"verb": "End", "subject": f"{topic}-{partition}", "plan": plan, "action": "/stuck/end"}
        return _plan_screen(context, fields=fields, cluster=cluster, target=target)

    return look


@router.post("/stuck/end")
async def end(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Ender,
    cluster: Annotated[str, Form()],
    topic: Annotated[str, Form()],
    partition: Annotated[int, Form(ge=0, lt=2**31)],
    producer_id: Annotated[int, Form(ge=0, lt=2**63)],
    producer_epoch: Annotated[int, Form(ge=0, lt=2**15)],
    start_offset: Annotated[int, Form(ge=0, lt=2**63)],
    target: Annotated[str, Form()] = "",
    why: Why = "",
    force: Force = False,
) -> Response:
    try:
        await operating.end(
            uow,
            wiring.unit_of_work,
            wiring.transactions,
            cluster=cluster,
            topic=topic,
            partition=partition,
            expected=(producer_id, producer_epoch, start_offset),
            force=force,
            by=by,
            why=why or None,
            observations=wiring.observations,
            clock=wiring.clock,
        )
        await uow.commit()
    except FencelineError as error:
        look = _end_look(wiring, cluster, topic, partition, start_offset, target)
        return await screen.page(request, wiring, by, look, is_live=False, refused=error)
    return screen.see("stuck", said="transaction-ended", cluster=cluster, target=target)


def _plan_screen(context: Mapping[str, Any], *, fields: Mapping[str, object], cluster: str, target: str) -> Screen:
    back = screen.url_of("stuck", cluster=cluster, target=target or None)
    shown = {**context, "fields": fields, "back": back}
    return Screen(template="stuck/plan", title=f"{context['verb']} {context['subject']}", context=shown)
