"""Authentication, decoding and answers of workers' messages, for each route of the workers' listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

import msgspec
from fastapi import Depends, Request, Response

from app.core.access.service import tokens
from app.core.wire import protocol
from app.core.wiring import Wiring, WiringDep
from app.kit.access import RunTokenScope
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import UnauthenticatedError, UnavailableError
from app.kit.web.http_protocol import authenticated

ANSWER_WITHIN_S = 1.5
"""Below the 2 s after which a worker stops waiting."""

Message = TypeVar("Message", bound=msgspec.Struct)


class _MessageHeader(msgspec.Struct):
    protocol_version: int = -1


class MalformedMessageError(Exception):
    """A message that does not have the shape of its protocol version."""


@asynccontextmanager
async def bounded_unit(wiring: Wiring) -> AsyncGenerator[UnitOfWork]:
    """Yield a unit of work with a time limit. Raises UnavailableError after it."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S), wiring.unit_of_work() as uow:
            yield uow
    except TimeoutError as error:
        raise UnavailableError(f"Postgres did not answer within {ANSWER_WITHIN_S} s; report again later") from error


async def _scope(request: Request, wiring: WiringDep) -> RunTokenScope:
    """Return the scope of the run token. Raises UnauthenticatedError."""

    async def find(secret: str) -> RunTokenScope | None:
        async with bounded_unit(wiring) as uow:
            return await tokens.authenticate_run_token(uow, secret)

    if secret := secret_of(request):
        scope = await wiring.run_tokens.scope_of(secret, find)
        if scope is not None:
            authenticated(request)
            return scope
    raise UnauthenticatedError("this listener takes run tokens only, and this token is unknown")


def secret_of(request: Request) -> str:
    """Return the bearer token of the request; empty without one."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


Scope = Annotated[RunTokenScope, Depends(_scope)]


async def read(request: Request, kind: type[Message]) -> Message:
    """Return the message of that kind; its version is checked first.

    Raises UnsupportedProtocolError and MalformedMessageError.
    """
    body = await request.body()
    try:
        version = msgspec.json.decode(body, type=_MessageHeader).protocol_version
        protocol.check(version, peer="the worker")
        message = msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MalformedMessageError(
            f"this is not a {kind.__name__} of protocol version {_versions()}: {why}"
        ) from error
    return message


def _versions() -> str:
    return ", ".join(str(version) for version in sorted(protocol.SUPPORTED))


def answer_with(message: msgspec.Struct, *, status: int = 200) -> Response:
    """Return the message as JSON."""
    return Response(msgspec.json.encode(message), status_code=status, media_type="application/json")
