"""The parameters of routes by type: the wiring, a unit of work, and the principal.

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
        """Wait for a change since the last call; False if none came in time. Many changes count as one."""
        ...


class Changes(Protocol):
    """Wakes readers when data of a page was committed, by any server (app/edges/db/changes.py)."""

    def subscribe(self, wants: Callable[[str], bool] = ...) -> AbstractAsyncContextManager[Subscription]:
        """`wants` chooses by `<noun>:<name>`; without it every change wakes."""
        ...


@dataclass(frozen=True, kw_only=True)
class PartHealth:
    """One required part of the server: `is_ready`, or `why_not` as a sentence."""

    name: str
    is_ready: bool
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Everything that the web needs from outside, assembled by app/edges/main/server.py and kept as
    `app.state.wiring`.

    users_url, workers_urls: the addresses of the listeners, for links and for specifications.
    version: of this Fenceline; workers must have the same.
    stopping: set when the process is asked to end; event streams end then.
    health: the parts of /readyz, checked for each request.
    migration_questions: the questions of a preflight and a verification, for a plan.
    needs: the pipelines' issues from products, in the order of pages.
    gone: receives a current driver's reports of its ended attempts.
    dropped_fields: the refused fields of workers' messages.
    dead_ends: the results of ending transactions of dead tasks since the server's start, by (cluster, result).
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
        """The administrator's additions to the built-in allow-lists."""
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


async def principal_of(wiring: Wiring, credential: Credential) -> Principal | None:
    """Return the credential's owner; None if it is unknown, expired or revoked."""
    async with wiring.unit_of_work() as uow:
        now = wiring.clock.now()
        if credential.is_session:
            session = await tokens.get_session(uow, credential.secret, now=now)
            principal = None if session is None else session.principal
        else:
            principal = await tokens.authenticate(uow, credential.secret, now=now)
        # Its last use is recorded once a minute; uncommitted, every request would write it again.
        await uow.commit()
        return principal


async def principals_of(wiring: Wiring, session_secrets: Collection[str]) -> dict[str, Principal]:
    """Return the owners of these browsers' sessions, by secret, without unknown, expired or revoked ones."""
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
"""The user; pages send a browser without a login to /login."""


@dataclass(frozen=True)
class Allowed:
    """Make a dependency that returns the principal if its role permits `verb`, else 403 with both roles named."""

    verb: Verb

    async def __call__(self, principal: CurrentPrincipal) -> Principal:
        access.require(principal, self.verb)
        return principal


def may(verb: Verb) -> Any:
    """`by: Annotated[Principal, may(Verb.START_RUN)]` on every route that requires a role."""
    return Depends(Allowed(verb))
