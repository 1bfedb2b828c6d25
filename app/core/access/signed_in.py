"""The principal of a request, and the permission that a route requires."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from app.core.access.service import tokens
from app.kit import access
from app.kit.access import Principal, Verb
from app.kit.errors import UnauthenticatedError
from app.kit.web.dependencies import Credential, WebWiring, WebWiringDep, credential_of
from app.kit.web.http_protocol import authenticated


async def principal_of(wiring: WebWiring, credential: Credential) -> Principal | None:
    """Return the owner of this credential now; None if it is unknown, expired or revoked."""
    async with wiring.unit_of_work() as uow:
        now = wiring.clock.now()
        if credential.is_session:
            session = await tokens.get_session(uow, credential.secret, now=now)
            principal = None if session is None else session.principal
        else:
            principal = await tokens.authenticate(uow, credential.secret, now=now)
        # When it was last used is noted once a minute; uncommitted, it would be written again by every request.
        await uow.commit()
        return principal


async def principals_of(wiring: WebWiring, session_secrets: Collection[str]) -> dict[str, Principal]:
    """Return the owners of these browsers' sessions now, by secret; invalid ones are left out."""
    async with wiring.unit_of_work() as uow:
        found = await tokens.get_sessions(uow, session_secrets, now=wiring.clock.now())
        await uow.commit()
    return {secret: session.principal for secret, session in found.items()}


async def _current_principal(request: Request, wiring: WebWiringDep) -> Principal:
    credential = credential_of(request)
    principal = None if credential is None else await wiring.principal_of(credential)
    if principal is None:
        known = "" if credential is None else "this credential is unknown, expired or revoked: "
        raise UnauthenticatedError(f"{known}log in, or send a token as `Authorization: Bearer …`")
    authenticated(request)
    return principal


CurrentPrincipal = Annotated[Principal, Depends(_current_principal)]
"""The user of the request; pages send a browser without a login to /login."""


@dataclass(frozen=True)
class Allowed:
    """A dependency that gives the principal if its role includes what `verb` needs, else 403 with both roles named."""

    verb: Verb

    async def __call__(self, principal: CurrentPrincipal) -> Principal:
        access.require(principal, self.verb)
        return principal


def may(verb: Verb) -> Any:
    """`by: Annotated[Principal, may(Verb.START_RUN)]` on every route that needs a login."""
    return Depends(Allowed(verb))


Viewer = Annotated[Principal, may(Verb.VIEW)]
