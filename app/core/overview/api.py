"""REST: the open problems of all clusters and pipelines."""

from __future__ import annotations

from datetime import datetime

import msgspec
from fastapi import APIRouter

from app.core.access.signed_in import Viewer
from app.core.double_processing.service import open_overlaps
from app.core.overview import service as overview
from app.core.overview.pages import unseen
from app.core.overview.problems import OpenProblem, problems_of, unreached_of
from app.core.wiring import WiringDep
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/problems", tags=["problems"])


class OpenProblems(msgspec.Struct, frozen=True, kw_only=True):
    """The gravest problem first. unverified: clusters that cannot be observed now; they may have more problems.

    checked_at: when the brokers of the cluster that was checked longest ago were last checked for blocked readers;
    None: none was.
    """

    items: tuple[OpenProblem, ...]
    pipelines: int
    clusters: int
    unverified: tuple[str, ...]
    checked_at: datetime | None


@router.get("", responses=refusals())
async def list_problems(uow: Uow, wiring: WiringDep, _: Viewer) -> Shown[OpenProblems]:
    """List the open problems of all clusters and pipelines: one item for each cause."""
    now = wiring.clock.now()
    view = await overview.overview(uow, needs=wiring.needs, now=now)
    blocked = wiring.observations.blocked()
    overlaps = await open_overlaps(wiring.observations, now=now)
    return OpenProblems(
        items=problems_of(
            view.needs,
            blocked=blocked,
            hanging=view.hanging,
            raised=view.raised,
            overlaps=overlaps,
            unreached=unreached_of(wiring.observations.all(), overview.pipeline_clusters(view.lines)),
        ),
        pipelines=len(view.lines),
        clusters=len(view.clusters),
        unverified=tuple(sorted({*unseen(wiring, now=now), *(one.cluster for one in blocked if one.problem)})),
        checked_at=min((one.at for one in blocked if one.at is not None), default=None),
    )
