"""What routes ask for by type: the wiring, a unit of work, and who is asking.

@router.post("/…")
async def start(name: str, uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.START_RUN)]) -> …:
    run = await runs.start_run(uow, …, by=by, now=wiring.clock.now())
    await uow.commit()          # edges commit, services never do
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from app.core.access.service import tokens
from app.core.allow_lists.options import AllowedOptions
from app.core.blocked.brokers import TransactionBrokers
from app.core.clusters.brokers import Brokers
from app.core.clusters.surveys import Surveys
from app.core.observing.service.held_back import HeldBack
from app.core.observing.service.observations import Observations
from app.core.observing.service.partition_counts import PartitionCounts
from app.core.overview.needs import NeedsOf
from app.core.runs.service.worker_words import DroppedFields
from app.core.wire.heartbeat import DriverHeartbeat
from app.kit import access
from app.kit.access import Principal, Verb
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.errors import UnauthenticatedError
from app.kit.settings import Settings
from app.kit.web.http_protocol import authenticated
from app.kit.web.security.cookies import session_secret
from app.kit.web.security.login_limit import LoginLimit
from app.products.migrations.ports import MigrationQuestions


class Subscription(Protocol):
    async def wait(self, *, timeout_s: float) -> bool:
        """Wait for a change since the last call; False when none came in time. Many changes are one."""
        ...


class Changes(Protocol):
    """Wakes readers when something that a page shows has been committed, by any server (app/edges/db/changes.py)."""

    def subscribe(self, wants: Callable[[str], bool] = ...) -> AbstractAsyncContextManager[Subscription]:
        """`wants` chooses by `<noun>:<name>`; without it every change wakes."""
        ...


@dataclass(frozen=True, kw_only=True)
class PartHealth:
    """One part that the server needs: `is_ready`, or `why_not` as a sentence."""

    name: str
    is_ready: bool
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Everything that the web needs from outside, put together by app/edges/main/server.py and kept as
    `app.state.wiring`.

    users_url, workers_urls: where the listeners are reached, for links and for specifications.
    version: of this Fenceline; workers must be of the same.
    stopping: set when the process is asked to end; event streams end then.
    health: the parts of /readyz, asked anew for each request.
    migration_questions: what only a preflight and a verification ask, for a plan.
    needs: what products tell of pipelines, in the order of pages.
    gone: hears what a current driver tells of its own attempts.
    dropped_fields: what was not taken of workers' messages.
    dead_ends: what became of the transactions of dead tasks since this server began, by (cluster, result).
    """

    settings: Settings
    clock: Clock
    unit_of_work: UnitOfWorkFactory
    brokers: Brokers
    transactions: TransactionBrokers
    changes: Changes
    observations: Observations
    surveys: Surveys
    login_limit: LoginLimit
    health: Callable[[], Awaitable[Sequence[PartHealth]]]
    users_url: str
    workers_urls: tuple[str, ...]
    version: str
    migration_questions: MigrationQuestions
    needs: Sequence[NeedsOf]
    dead_ends: Callable[[], Mapping[tuple[str, str], int]] = dict
    gone: Callable[[DriverHeartbeat], None] = lambda _: None
    held_back: HeldBack = field(default_factory=HeldBack)
    partition_counts: PartitionCounts = field(default_factory=PartitionCounts)
    dropped_fields: DroppedFields = field(default_factory=DroppedFields)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def allowed_options(self) -> AllowedOptions:
        """What the administrator's settings add to the built-in allow-lists."""
        return AllowedOptions(
            consumer=frozenset(self.settings.allowed_consumer_options),
            producer=frozenset(self.settings.allowed_producer_options),
            spark_conf=frozenset(self.settings.allowed_spark_conf),
            spark_masters=frozenset(self.settings.allowed_spark_masters),
            file_roots=frozenset(self.settings.allowed_file_roots),
            python_transforms=self.settings.python_transforms,
            unisolated_validation=self.settings.unisolated_validation,
            secret_paths=self.settings.secret_paths,
        )


def _wiring(request: Request) -> Wiring:
    wiring = request.app.state.wiring
    assert isinstance(wiring, Wiring)  # noqa: S101 - set by the app factory
    return wiring


WiringDep = Annotated[Wiring, Depends(_wiring)]


async def _unit_of_work(wiring: WiringDep) -> AsyncIterator[UnitOfWork]:
    async with wiring.unit_of_work() as uow:
        yield uow


Uow = Annotated[UnitOfWork, Depends(_unit_of_work, scope="function")]
"""One unit of work for the request, given back before the answer is sent; what is not committed is rolled back.

Event streams take `wiring.unit_of_work()` for each look instead, or they would hold a connection while they live.
"""


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What the request proved itself with; kept so that a stream can ask again whether it still holds."""

    secret: str
    is_session: bool


def credential_of(request: Request) -> Credential | None:
    """A bearer token, else the browser's session cookie, else None."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return Credential(secret=secret.strip(), is_session=False)
    cookie = session_secret(request)
    return None if cookie is None else Credential(secret=cookie, is_session=True)


async def principal_of(wiring: Wiring, credential: Credential) -> Principal | None:
    """Whose credential this is now; None when it is unknown, expired or revoked."""
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


async def principals_of(wiring: Wiring, session_secrets: Collection[str]) -> dict[str, Principal]:
    """Whose these browsers' sessions are now, by secret; those that are unknown, expired or revoked are left out."""
    async with wiring.unit_of_work() as uow:
        found = await tokens.get_sessions(uow, session_secrets, now=wiring.clock.now())
        await uow.commit()
    return {secret: session.principal for secret, session in found.items()}


async def _current_principal(request: Request, wiring: WiringDep) -> Principal:
    credential = credential_of(request)
    principal = None if credential is None else await principal_of(wiring, credential)
    if principal is None:
        known = "" if credential is None else "this credential is unknown, expired or revoked: "
        raise UnauthenticatedError(f"{known}log in, or send a token as `Authorization: Bearer …`")
    authenticated(request)
    return principal


CurrentPrincipal = Annotated[Principal, Depends(_current_principal)]
"""Who is asking; pages send a browser that nobody is logged in with to /login."""


@dataclass(frozen=True)
class Allowed:
    """A dependency that gives the principal if its role includes what `verb` needs, else 403 with both roles named."""

    verb: Verb

    async def __call__(self, principal: CurrentPrincipal) -> Principal:
        access.require(principal, self.verb)
        return principal


def may(verb: Verb) -> Any:
    """`by: Annotated[Principal, may(Verb.START_RUN)]` on every route that is not open to everybody."""
    return Depends(Allowed(verb))
