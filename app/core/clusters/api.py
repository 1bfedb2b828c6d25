"""Kafka clusters over REST, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.clusters import service as clusters
from app.core.clusters.brokers import ClusterDescription
from app.core.clusters.cluster import Cluster
from app.core.clusters.schemas import ClusterGiven, ClusterSurvey
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath, Why
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/clusters", tags=["clusters"])


@router.get("", responses=refusals())
async def list_clusters(uow: Uow, _: Viewer) -> Shown[Items[Cluster]]:
    """List all registered clusters, by name."""
    return Items(await clusters.list_clusters(uow))


@router.post("", status_code=201, response_model=Shown[Cluster], responses=refusals(409, 413))
async def register_cluster(
    body: ClusterGiven, uow: Uow, wiring: WiringDep, once: OnceDep, by: Annotated[Principal, may(Verb.REGISTER_CLUSTER)]
) -> Response:
    """Register a cluster that answers now; its id is the one that its brokers report."""

    async def act() -> Cluster:
        return await clusters.register_cluster(
            uow,
            wiring.brokers,
            name=body.name,
            bootstrap_servers=body.bootstrap_servers,
            client_config=body.client_config,
            allowed_addresses=wiring.settings.allowed_broker_addresses,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/{name}", responses=refusals(404))
async def get_cluster(name: NameInPath, uow: Uow, _: Viewer) -> Shown[Cluster]:
    """Return one cluster: its brokers' addresses and its cluster id."""
    return await clusters.get_cluster(uow, name)


@router.get("/{name}/survey", responses=refusals(404))
async def survey_cluster(name: NameInPath, wiring: WiringDep, _: Viewer) -> ClusterSurvey:
    """Return brokers, features and settings with advice, of at most half a minute ago."""
    async with wiring.unit_of_work() as uow:
        cluster = await clusters.get_cluster(uow, name)
    return ClusterSurvey.of_answer(await wiring.surveys.of(cluster))


@router.post("/{name}/probe", responses=refusals(404, 409))
async def probe_cluster(
    name: NameInPath, uow: Uow, wiring: WiringDep, _: Annotated[Principal, may(Verb.PROBE_CLUSTER)]
) -> Shown[ClusterDescription]:
    """Ask its brokers now. 503 names the address, the error and the time of the attempts."""
    return await clusters.probe_cluster(uow, wiring.brokers, name)


@router.delete("/{name}", status_code=204, responses=refusals(404, 409))
async def remove_cluster(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.REMOVE_CLUSTER)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Remove a cluster that no pipeline names. Nothing in Kafka changes."""
    await clusters.remove_cluster(uow, name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()
