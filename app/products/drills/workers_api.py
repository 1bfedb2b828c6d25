"""The route of the workers' listener for the reports of a drill's targets."""

from __future__ import annotations

from fastapi import Request, Response

from app.core.runs.message_api import Scope, answer_with, bounded_unit, read
from app.core.wire.drill import DrillReport
from app.core.wiring import WiringDep
from app.products.drills.service import drills


async def drill(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await read(request, DrillReport)
    async with bounded_unit(wiring) as uow:
        answer = await drills.receive_report(uow, message, scope=scope, now=wiring.clock.now())
        await uow.commit()
    return answer_with(answer)
