"""Dependencies of web routes: the wiring of the web frame, a unit of work, the credential of a request."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request

from app.kit.access import Principal
from app.kit.changes import Changes
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.settings import Settings
from app.kit.web.security.cookies import session_secret
from app.kit.web.security.login_limit import LoginLimit

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class PartHealth:
    """One required part of the server: `is_ready`, or `why_not` as a sentence."""

    name: str
    is_ready: bool
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)
class WebWiring(ABC):
    """The parts of a server that the web frame uses; `Wiring` (app/core/wiring.py) adds those of core.

    users_url, workers_urls: the addresses of the listeners, for links and for specifications.
    version: of this Fenceline; workers must have the same.
    stopping: set when the process is asked to end; event streams end then.
    health: the parts of /readyz, checked for each request.
    parts: objects of products for their own routes, by class.
    """

    settings: Settings
    clock: Clock
    unit_of_work: UnitOfWorkFactory
    changes: Changes
    login_limit: LoginLimit
    health: Callable[[], Awaitable[Sequence[PartHealth]]]
    users_url: str
    workers_urls: tuple[str, ...]
    version: str
    parts: Mapping[type, object] = field(default_factory=dict[type, object])
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @abstractmethod
    async def principal_of(self, credential: Credential) -> Principal | None:
        """The principal of the credential now; None when it is unknown, expired or revoked."""

    def part(self, kind: type[P]) -> P:
        """The part of that class. Raises LookupError when no product gives one."""
        if kind not in self.parts:
            raise LookupError(f"no product gives a {kind.__name__}: `parts` of its record must have one")
        return cast(Any, self.parts[kind])


def _web_wiring(request: Request) -> WebWiring:
    wiring = request.app.state.wiring
    assert isinstance(wiring, WebWiring)  # noqa: S101 - set by the app factory
    return wiring


WebWiringDep = Annotated[WebWiring, Depends(_web_wiring)]


async def _unit_of_work(wiring: WebWiringDep) -> AsyncIterator[UnitOfWork]:
    async with wiring.unit_of_work() as uow:
        yield uow


Uow = Annotated[UnitOfWork, Depends(_unit_of_work, scope="function")]
"""One unit of work for the request, closed before the answer is sent; uncommitted changes are rolled back.

Event streams take `wiring.unit_of_work()` for each view instead, as they would hold a connection while they live.
"""


@dataclass(frozen=True, kw_only=True)
class Credential:
    """The request's credential; kept so that a stream can check it again."""

    secret: str
    is_session: bool


def credential_of(request: Request) -> Credential | None:
    """A bearer token, else the browser's session cookie, else None."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return Credential(secret=secret.strip(), is_session=False)
    cookie = session_secret(request)
    return None if cookie is None else Credential(secret=cookie, is_session=True)
