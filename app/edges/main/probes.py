"""/healthz: this process answers. /readyz: its parts are ready too, else which one is not and why. /metrics."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from app.core.access.signed_in import principal_of
from app.core.wiring import WiringDep
from app.edges.main.metrics import exposition
from app.kit import access
from app.kit.access import Verb
from app.kit.errors import UnauthenticatedError
from app.kit.web.dependencies import credential_of
from app.kit.web.http_protocol import authenticated
from app.kit.web.problems import ProblemResponse

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz() -> Response:
    """Return 200."""
    return Response(b'{"status":"ok"}', media_type="application/json")


@router.get("/readyz")
async def readyz(wiring: WiringDep) -> Response:
    """200 when all parts are ready, else 503 with a sentence for each that is not."""
    parts = await wiring.health()
    missing = [part for part in parts if not part.is_ready]
    if missing:
        return ProblemResponse(
            503,
            "; ".join(f"{part.name}: {part.why_not}" for part in missing),
            title="Not ready",
            problems=[{"field": part.name, "message": part.why_not, "is_warning": False} for part in missing],
            headers={"Retry-After": "2"},
        )
    return Response(
        orjson.dumps({"status": "ready", "parts": {part.name: "ready" for part in parts}}),
        media_type="application/json",
    )


async def _may_see_metrics(request: Request, wiring: WiringDep) -> None:
    """Require a viewer, unless the setting makes metrics public."""
    if wiring.settings.metrics_public:
        return
    credential = credential_of(request)
    principal = None if credential is None else await principal_of(wiring, credential)
    if principal is None:
        raise UnauthenticatedError("metrics need a viewer's token, or the setting metrics_public")
    authenticated(request)
    access.require(principal, Verb.VIEW)


@router.get("/metrics")
async def metrics(wiring: WiringDep, _: Annotated[None, Depends(_may_see_metrics)]) -> Response:
    """Return the metrics for Prometheus."""
    return Response(await exposition(wiring), media_type=CONTENT_TYPE_LATEST)
