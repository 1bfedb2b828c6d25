"""Offset resets over REST: preview and execution. A reset requires that no run lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import may
from app.core.runs import offset_reset
from app.core.runs.api.offset_schemas import OffsetResetGiven, OffsetTarget
from app.core.runs.offset_reset import OffsetChange
from app.core.runs.service import offsets
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/pipelines/{name}/offsets", tags=["offsets"])


@router.post("/preview", responses=refusals(404, 409, 413))
async def preview_offset_reset(
    name: NameInPath, body: OffsetTarget, uow: Uow, wiring: WiringDep, _: Annotated[Principal, may(Verb.RESET_OFFSETS)]
) -> Shown[Items[OffsetChange]]:
    """Show the changes of a reset, one line for each partition. Nothing is changed."""
    return _listed(await offsets.preview_offset_reset(uow, wiring.brokers, pipeline=name, target=body.to_domain()))


@router.post("/reset", response_model=Shown[Items[OffsetChange]], responses=refusals(404, 409, 412, 413))
async def reset_offsets(
    name: NameInPath,
    body: OffsetResetGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.RESET_OFFSETS)],
) -> Response:
    """Reset the committed offsets of a stopped pipeline. Records between old and new are read again, or never."""

    async def act() -> Items[OffsetChange]:
        return _listed(
            await offsets.reset_offsets(
                uow,
                wiring.brokers,
                pipeline=name,
                target=body.to_domain(),
                expected=_expected(body),
                by=by,
                why=body.why,
                now=wiring.clock.now(),
            )
        )

    answer = await once.do(act)
    await uow.commit()
    return answer


def _expected(body: OffsetResetGiven) -> list[offset_reset.OffsetChange] | None:
    if body.expected is None:
        return None
    return [
        offset_reset.OffsetChange(
            topic=item.topic, partition=item.partition, committed=item.committed, target=0, earliest=0, end=0
        )
        for item in body.expected
    ]


def _listed(changes: Sequence[offset_reset.OffsetChange]) -> Items[OffsetChange]:
    return Items(changes)
