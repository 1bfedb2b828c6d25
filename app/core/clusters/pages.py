"""Kafka clusters: the list and registration; one cluster with its observer, transaction settings and brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.clocks.broker_clocks import SAME_WITHIN_MS
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters import service as clusters
from app.core.clusters.survey import feature_lines, setting_lines
from app.core.fencing.record import FencingFilter
from app.core.fencing.service import feed as fencing_feed
from app.core.observing.snapshot import JournalStatus
from app.core.overview.service import FENCING_SPAN
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError, Problem
from app.kit.storable import moment_of_ms
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SKEWED_MS = 5_000
"""A difference of clocks that is worth a mark."""
_FIELDS = ("name", "bootstrap_servers", "client_config")


async def _look(
    uow: UnitOfWork,
    *,
    values: Mapping[str, str] | None = None,
    problems: Mapping[str, Sequence[Problem]] | None = None,
    probe: Mapping[str, object] | None = None,
    status: int = 200,
) -> Screen:
    context = {
        "clusters": await clusters.list_clusters(uow),
        "values": values or {},
        "problems": problems or {},
        "probe": probe,
    }
    return Screen(template="clusters/list", title="Clusters", context=context, status=status)


@router.get("/clusters")
async def show_list(request: Request, wiring: WiringDep, by: Viewer) -> Response:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        return await _look(uow)

    return await screen.page(request, wiring, by, look, is_live=False)


@router.post("/clusters")
async def register(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.REGISTER_CLUSTER)],
    name: Annotated[str, Form()] = "",
    bootstrap_servers: Annotated[str, Form()] = "",
    client_config: Annotated[str, Form()] = "",
    why: Annotated[str, Form()] = "",
) -> Response:
    now = wiring.clock.now()
    values = {"name": name, "bootstrap_servers": bootstrap_servers, "client_config": client_config, "why": why}
    try:
        await clusters.register_cluster(
            uow,
            wiring.brokers,
            name=name.strip(),
            bootstrap_servers=bootstrap_servers.strip(),
            client_config=_options(client_config),
            allowed_addresses=wiring.settings.allowed_broker_addresses,
            by=by,
            why=why or None,
            now=now,
        )
        await uow.commit()
    except FencelineError as error:
        # A failed statement spoils its unit of work, so the page is read in a new one.
        async with wiring.unit_of_work() as fresh:
            problems = by_field(problems_of(error), fields=_FIELDS)
            shown = await _look(fresh, values=values, problems=problems, status=error.status)
        return screen.show(request, shown, principal=by, now=now)
    return screen.see("clusters", said="cluster-registered")


def looking_at(wiring: Wiring, name: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, uow
        # A unit of its own, ended before the brokers are asked: the page's unit would keep its connection meanwhile.
        async with wiring.unit_of_work() as fresh:
            cluster = await clusters.get_cluster(fresh, name)
            of_a_day = FencingFilter(since=now - FENCING_SPAN)
            fencings = await fencing_feed.count_by_cause(fresh, of_a_day, cluster=name)
        answer = await wiring.surveys.of(cluster)
        survey = answer.survey
        snapshot = wiring.observations.of(name)
        context = {
            "blocked": [wiring.observations.blocked_of(name)],
            "cluster": cluster,
            "answer": answer,
            "brokers": survey.brokers if survey else (),
            "clocks": {broker: clock_words(offset) for broker, offset in snapshot.clocks.offsets.items()},
            "skewed": [
                broker for broker, offset in snapshot.clocks.offsets.items() if abs(offset.middle_ms) >= SKEWED_MS
            ],
            "answering": sum(broker.version is not None for broker in survey.brokers) if survey else 0,
            "features": feature_lines(survey) if survey else (),
            "settings": setting_lines(survey) if survey else (),
            "fencings": fencings,
            "snapshot": snapshot,
            "open": len(snapshot.open_transactions),
            "journals": [_reading(status) for status in (snapshot.transaction_journal, snapshot.group_journal)],
        }
        # The brokers' answers change all the time: the page is read every two seconds, and they are asked less often.
        return Screen(template="clusters/detail", title=name, context=context, concerns=frozenset())

    return look


def looking_at_settings(wiring: Wiring, name: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, uow, now
        async with wiring.unit_of_work() as fresh:
            cluster = await clusters.get_cluster(fresh, name)
        answer = await wiring.surveys.of(cluster)
        survey = answer.survey
        context = {
            "cluster": cluster,
            "answer": answer,
            "brokers": survey.brokers if survey else (),
            "features": feature_lines(survey) if survey else (),
            "settings": setting_lines(survey) if survey else (),
        }
        return Screen(template="clusters/settings", title=f"Settings of {name}", context=context, concerns=frozenset())

    return look


def clock_words(offset: ClockOffset) -> str:
    """Return `in step`, `5 min behind`, `2 s ahead`."""
    return "in step" if abs(offset.middle_ms) < SAME_WITHIN_MS else offset.distance


def _reading(status: JournalStatus) -> Mapping[str, Any]:
    since_ms = status.complete_since_ms
    return {
        "status": status,
        "as_of": moment_of_ms(status.as_of_ms) if status.as_of_ms >= 0 else None,
        "is_whole": since_ms is None,
        "complete_since": moment_of_ms(since_ms) if since_ms is not None and since_ms >= 0 else None,
    }


@router.get("/clusters/{name}")
@router.get("/clusters/{name}/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, name: str) -> Response:
    return await screen.live(request, wiring, by, looking_at(wiring, name))


@router.get("/clusters/{name}/settings")
@router.get("/clusters/{name}/settings/stream")
async def show_settings(request: Request, wiring: WiringDep, by: Viewer, name: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_settings(wiring, name))


@router.post("/clusters/{name}/probe")
async def probe(
    request: Request, wiring: WiringDep, uow: Uow, by: Annotated[Principal, may(Verb.PROBE_CLUSTER)], name: str
) -> Response:
    """Ask the brokers now; the page shows the answer, or the reason against it, beside the cluster."""
    found: dict[str, object] = {"name": name, "description": None, "error": None}
    try:
        found["description"] = await clusters.probe_cluster(uow, wiring.brokers, name)
    except FencelineError as error:
        found["error"] = error.message
    return screen.show(request, await _look(uow, probe=found), principal=by, now=wiring.clock.now())


@router.post("/clusters/{name}/remove")
async def remove(
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.REMOVE_CLUSTER)],
    name: str,
    why: Annotated[str, Form()] = "",
) -> Response:
    try:
        await clusters.remove_cluster(uow, name, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except NotFoundError:
        return screen.see("clusters", said="already-gone")
    return screen.see("clusters", said="cluster-removed")


def _options(text: str) -> dict[str, str]:
    """Parse lines of `option=value`."""
    lines = (line.partition("=") for line in text.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, _, value in lines}
