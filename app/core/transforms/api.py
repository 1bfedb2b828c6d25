"""Uploaded Python files, stored by their SHA-256; a definition names one by it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.pipelines.pipeline_record import TransformSource
from app.core.pipelines.service import pipelines
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.errors import InvalidError
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import Sha256InPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/transform-sources", tags=["transform sources"])
_MEDIA_TYPES = frozenset({"text/x-python", "text/plain"})
_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {"text/x-python": {}}}}


@router.post(
    "", status_code=201, response_model=Shown[TransformSource], responses=refusals(413, 415), openapi_extra=_BODY
)
async def store_transform_source(
    request: Request,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.STORE_TRANSFORM_SOURCE)],
) -> Response:
    """Store the text of a Python file. It is not imported or run here; it will run on the executors."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _MEDIA_TYPES:
        raise HTTPException(415, f"a Python file is sent as text/x-python, not as {media_type or 'nothing'}")
    try:
        source = (await request.body()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidError(f"the file is not UTF-8 text: {error}", field="source") from error
    if "\x00" in source:
        raise InvalidError("the file contains U+0000, which Python source must not", field="source")

    async def act() -> TransformSource:
        return await pipelines.store_transform_source(
            uow, source=source, allowed=wiring.allowed_options, by=by, why=None, now=wiring.clock.now()
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get(
    "/{sha256}",
    responses={**refusals(404), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def get_transform_source(sha256: Sha256InPath, uow: Uow, _: Viewer) -> Response:
    """Return the text, as it was uploaded."""
    record = await pipelines.get_transform_source(uow, sha256)
    return Response(record.source, media_type="text/plain; charset=utf-8")
