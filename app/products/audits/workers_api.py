"""Routes of the workers' listener for drivers of audits, each with its audit's token."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from app.core.runs.message_api import answer_with, bounded_unit, read, secret_of
from app.core.wiring import WiringDep
from app.kit.errors import UnauthenticatedError
from app.kit.web.http_protocol import authenticated
from app.products.audits.service import carrying_out
from app.products.audits.wire import AuditClaim, AuditOutcome, AuditProgressReport


async def _audit_id(request: Request, wiring: WiringDep) -> str:
    """Return the audit of the token. Raises UnauthenticatedError."""
    secret = secret_of(request)
    if secret:
        async with bounded_unit(wiring) as uow:
            audit_id = await carrying_out.audit_of_token(uow, secret)
        if audit_id is not None:
            authenticated(request)
            return audit_id
    raise UnauthenticatedError("this listener takes tokens of runs and audits only, and this is none that it knows")


AuditId = Annotated[str, Depends(_audit_id)]


async def claim_audit(request: Request, wiring: WiringDep, audit_id: AuditId) -> Response:
    """Claim an audit, as the first message of its driver; 409 with the reason if another driver has it, or none may."""
    message = await read(request, AuditClaim)
    carrying_out.check_scope(audit_id, named=message.audit_id)
    async with bounded_unit(wiring) as uow:
        answer = await carrying_out.claim_audit(uow, message, now=wiring.clock.now())
        await uow.commit()
    return answer_with(answer, status=200 if answer.granted else 409)


async def audit_progress(request: Request, wiring: WiringDep, audit_id: AuditId) -> Response:
    message = await read(request, AuditProgressReport)
    carrying_out.check_scope(audit_id, named=message.audit_id)
    async with bounded_unit(wiring) as uow:
        answer = await carrying_out.receive_progress(uow, message, now=wiring.clock.now())
        await uow.commit()
    return answer_with(answer)


async def audit_outcome(request: Request, wiring: WiringDep, audit_id: AuditId) -> Response:
    message = await read(request, AuditOutcome)
    carrying_out.check_scope(audit_id, named=message.audit_id)
    async with bounded_unit(wiring) as uow:
        await carrying_out.receive_outcome(uow, message, now=wiring.clock.now())
        await uow.commit()
    return Response(b"{}", media_type="application/json")
