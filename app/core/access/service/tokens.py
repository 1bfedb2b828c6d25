"""Authentication: tokens, one-time links, browser sessions, and the run tokens of drivers and tasks.

Secrets are 256 random bits; only their SHA-256 is stored. A prefix shows the purpose of a secret, so that people and
scanners recognize one in a wrong place.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime, timedelta

from app.core.access.service import command_log
from app.core.access.service.secret_sums import sha256_of
from app.core.access.store.access import AccessStore
from app.core.access.store.identity import IdentityStore
from app.kit.access import LoginLink, Principal, Role, RunTokenScope, Session, Token, Verb, refuse_name, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import UnauthenticatedError

TOKEN_PREFIX = "flt_"  # noqa: S105 - no secret, it marks one
LINK_PREFIX = "fll_"
SESSION_PREFIX = "fls_"


async def create_token(
    uow: UnitOfWork, *, name: str, role: Role, by: Principal, why: str | None, now: datetime
) -> tuple[Token, str]:
    """Store a new token and return its secret, which is not stored.

    Raises InvalidError on a bad name, ConflictError while a valid token has that name.
    """
    require(by, Verb.CREATE_TOKEN)
    refuse_name(name)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = await uow.of(AccessStore).add_token(
        name=name, role=role, secret_sha256=sha256_of(secret), by=by.name, now=now
    )
    await command_log.record(
        uow, by=by, verb=Verb.CREATE_TOKEN, target=f"token:{name}", why=why, now=now, outcome=f"created as {role}"
    )
    return token, secret


async def list_tokens(uow: UnitOfWork, *, by: Principal) -> list[Token]:
    """Return all tokens, revoked ones too, newest first."""
    require(by, Verb.VIEW_TOKENS)
    return await uow.of(AccessStore).list_tokens()


async def revoke_token(uow: UnitOfWork, *, name: str, by: Principal, why: str | None, now: datetime) -> Token:
    """End the valid token of that name and every session of it. Raises NotFoundError if there is none."""
    require(by, Verb.REVOKE_TOKEN)
    token = await uow.of(AccessStore).revoke_token(name, now=now)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.REVOKE_TOKEN,
        target=f"token:{name}",
        why=why,
        now=now,
        outcome="revoked, with its sessions",
    )
    uow.notify("session", "*")
    return token


async def authenticate(uow: UnitOfWork, secret: str, *, now: datetime) -> Principal | None:
    """Return the owner of this token; None if it is not valid."""
    token = await _token_of(uow, secret, now=now)
    return None if token is None else Principal(name=token.name, role=token.role)


async def _token_of(uow: UnitOfWork, secret: str, *, now: datetime) -> Token | None:
    if not secret.startswith(TOKEN_PREFIX):
        return None
    return await uow.of(AccessStore).find_token(sha256_of(secret), now=now)


async def create_one_time_link(
    uow: UnitOfWork,
    *,
    principal: Principal,
    lifetime: timedelta,
    by: Principal,
    now: datetime,
) -> str:
    """Return a secret that logs a browser in as `principal`, once, until it expires. Raises InvalidError on a bad
    name.
    """
    require(by, Verb.CREATE_LOGIN_LINK)
    refuse_name(principal.name)
    secret = LINK_PREFIX + secrets.token_urlsafe(32)
    await uow.of(AccessStore).add_link(
        principal=principal, secret_sha256=sha256_of(secret), expires_at=now + lifetime, by=by.name, now=now
    )
    await command_log.record(
        uow,
        by=by,
        verb=Verb.CREATE_LOGIN_LINK,
        target=f"principal:{principal.name}",
        why=None,
        now=now,
        outcome=f"a one-time link for {principal.role}",
    )
    return secret


async def redeem_one_time_link(
    uow: UnitOfWork, secret: str, *, session_lifetime: timedelta, now: datetime
) -> tuple[Session, str]:
    """Use a link up; return a session and its secret. Raises UnauthenticatedError if it is used, expired or unknown."""
    link = await uow.of(AccessStore).take_link(sha256_of(secret), now=now) if secret.startswith(LINK_PREFIX) else None
    if link is None:
        raise UnauthenticatedError(
            "this login link was used already, has expired or is unknown: request a new one or use a token"
        )
    return await _open_session(uow, link.principal, link=link, lifetime=session_lifetime, now=now)


async def create_session(
    uow: UnitOfWork, token_secret: str, *, lifetime: timedelta, now: datetime
) -> tuple[Session, str]:
    """Log in with a token; return a session and its secret. Raises UnauthenticatedError on a bad token."""
    token = await _token_of(uow, token_secret.strip(), now=now)
    if token is None:
        raise UnauthenticatedError("this token is not valid: it may have been revoked, or mistyped", field="token")
    principal = Principal(name=token.name, role=token.role)
    return await _open_session(uow, principal, token_id=token.id, lifetime=lifetime, now=now)


async def _open_session(
    uow: UnitOfWork,
    principal: Principal,
    *,
    token_id: str | None = None,
    link: LoginLink | None = None,
    lifetime: timedelta,
    now: datetime,
) -> tuple[Session, str]:
    secret = SESSION_PREFIX + secrets.token_urlsafe(32)
    session = await uow.of(AccessStore).add_session(
        principal=principal,
        secret_sha256=sha256_of(secret),
        token_id=token_id,
        link=link,
        expires_at=now + lifetime,
        now=now,
    )
    return session, secret


async def get_session(uow: UnitOfWork, secret: str, *, now: datetime) -> Session | None:
    """Return the session of a cookie; None if it has expired, was ended, or its token was revoked."""
    return (await get_sessions(uow, [secret], now=now)).get(secret)


async def get_sessions(uow: UnitOfWork, secrets: Collection[str], *, now: datetime) -> dict[str, Session]:
    """Return the same for many at once, by their cookies' secrets; invalid ones are left out."""
    sums = {sha256_of(secret): secret for secret in secrets if secret.startswith(SESSION_PREFIX)}
    found = await uow.of(AccessStore).find_sessions(sums, now=now) if sums else {}
    return {sums[secret_sha256]: session for secret_sha256, session in found.items()}


async def list_sessions(uow: UnitOfWork, *, by: Principal, now: datetime) -> list[Session]:
    """Return every browser that is logged in now, newest first."""
    require(by, Verb.VIEW_SESSIONS)
    return await uow.of(AccessStore).list_sessions(now=now)


async def end_session(uow: UnitOfWork, session_id: str, *, by: Principal, why: str | None, now: datetime) -> Session:
    """Log a browser out; its event streams end within seconds. Raises NotFoundError unless it is logged in."""
    require(by, Verb.END_SESSION)
    session = await uow.of(AccessStore).end_session(session_id, now=now)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.END_SESSION,
        target=f"session:{session.id}",
        why=why,
        now=now,
        outcome=f"logged {session.principal.name} out, {session.principal.role}",
    )
    uow.notify("session", "*")
    return session


async def revoke_session(uow: UnitOfWork, secret: str, *, now: datetime) -> None:
    """Log out; a session that has ended already is not an error."""
    await uow.of(AccessStore).revoke_session(sha256_of(secret), now=now)
    uow.notify("session", "*")


async def authenticate_run_token(uow: UnitOfWork, secret: str) -> RunTokenScope | None:
    """Return the lease of a run token; None if it is unknown.

    The token of an ended lease is still known: a zombie's reports are evidence, and the answer ends it.
    """
    return await uow.of(AccessStore).find_run_token(sha256_of(secret))


async def is_first_start(uow: UnitOfWork) -> bool:
    """Return whether no token and no login link was ever created."""
    return await uow.of(IdentityStore).is_fresh()
