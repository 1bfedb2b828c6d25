"""Route of the workers' listener for reports of queries, with the run's token."""

from __future__ import annotations

from fastapi import Request, Response

from app.core.runs.message_api import Scope, answer_with, bounded_unit, read
from app.core.wiring import WiringDep
from app.products.dataframes.service.receiving import receive_report
from app.products.dataframes.wire import QueryReport


async def query_report(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    report = await read(request, QueryReport)
    now = wiring.clock.now()
    async with bounded_unit(wiring) as uow:
        received = await receive_report(uow, report, scope=scope, now=now)
        await uow.commit()
    sender = f"the driver of instance {report.ordinal}"
    wiring.dropped_fields.note(received.pipeline, sender, received.dropped, now=now)
    return answer_with(received.answer)
