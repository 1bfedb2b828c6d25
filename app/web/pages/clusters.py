"""Kafka clusters: which ones there are, whether they answer, and registering one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.domain.access import Principal, Verb
from app.domain.errors import FencelineError
from app.domain.pipelines.pipeline import Problem
from app.ports.unit_of_work import UnitOfWork
from app.services.defining import clusters
from app.web.dependencies import Uow, WiringDep, may
from app.web.pages.frame import screen
from app.web.pages.frame.errors import PageRoute
from app.web.pages.frame.form_errors import by_field, problems_of
from app.web.pages.frame.screen import Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Viewer = Annotated[Principal, may(Verb.VIEW)]
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
        # A failed statement spoils its unit of work, so the page is looked up in a new one.
        async with wiring.unit_of_work() as fresh:
            problems = by_field(problems_of(error), fields=_FIELDS)
            shown = await _look(fresh, values=values, problems=problems, status=error.status)
        return screen.show(request, shown, principal=by, now=now)
    return screen.see("clusters", said="cluster-registered")


@router.post("/clusters/{name}/probe")
async def probe(
    request: Request, wiring: WiringDep, uow: Uow, by: Annotated[Principal, may(Verb.PROBE_CLUSTER)], name: str
) -> Response:
    """Ask the brokers now; the answer, or why there is none, is shown beside the cluster."""
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
    await clusters.remove_cluster(uow, name, by=by, why=why or None, now=wiring.clock.now())
    await uow.commit()
    return screen.see("clusters", said="cluster-removed")


def _options(text: str) -> dict[str, str]:
    """Lines of `option=value`."""
    lines = (line.partition("=") for line in text.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, _, value in lines}
