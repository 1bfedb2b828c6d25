"""Tokens, one-time links, sessions, run tokens, and the keys of repeated commands. Secrets are never stored."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.access.tables.access import idempotency_keys, one_time_links, sessions, tokens
from app.core.runs.store.runs import as_uuid
from app.core.runs.tables.runs import run_tokens
from app.kit.access import LoginLink, Principal, Role, RunTokenScope, Session, Token
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError

USE_NOTED_EVERY = timedelta(minutes=1)


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a command with an idempotency key; `body` None: it is being carried out now."""

    request_sha256: str
    status: int | None
    body: Any


class AccessStore(DatabaseStore):
    """Tokens, sessions, one-time links and run tokens, by the SHA-256 of their secrets."""

    async def add_token(self, *, name: str, role: Role, secret_sha256: str, by: str, now: datetime) -> Token:
        """Raises ConflictError if a token of that name is valid."""
        statement = sa.insert(tokens).values(
            name=name, role=role, secret_sha256=secret_sha256, created_at=now, created_by=by
        )
        return _token((await self._db.execute(statement.returning(tokens))).one())

    async def list_tokens(self) -> list[Token]:
        rows = await self._db.rows(sa.select(tokens).order_by(tokens.c.created_at.desc(), tokens.c.name))
        return [_token(row) for row in rows]

    async def find_token(self, secret_sha256: str, *, now: datetime) -> Token | None:
        """Return a token that is not revoked; records its use (at most once a minute)."""
        row = await self._db.row(
            sa.select(tokens).where(tokens.c.secret_sha256 == secret_sha256, tokens.c.revoked_at.is_(None))
        )
        if row is None:
            return None
        if row.last_used_at is None or now - row.last_used_at > USE_NOTED_EVERY:
            # At most once a minute, and lost if the caller does not commit; both are acceptable.
            await self._db.execute(sa.update(tokens).where(tokens.c.id == row.id).values(last_used_at=now))
        return _token(row)

    async def revoke_token(self, name: str, *, now: datetime) -> Token:
        """Revoke the valid token of that name and end its sessions."""
        row = await self._db.row(
            sa.update(tokens)
            .where(tokens.c.name == name, tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
            .returning(tokens)
        )
        if row is None:
            raise NotFoundError(f"there is no valid token {name}; `fenceline tokens list` shows all tokens")
        await self._db.execute(
            sa.update(sessions)
            .where(sessions.c.token_id == row.id, sessions.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )
        return _token(row)

    async def add_link(
        self, *, principal: Principal, secret_sha256: str, expires_at: datetime, by: str, now: datetime
    ) -> None:
        await self._db.execute(
            sa.insert(one_time_links).values(
                secret_sha256=secret_sha256,
                name=principal.name,
                role=principal.role,
                created_at=now,
                created_by=by,
                expires_at=expires_at,
            )
        )

    async def take_link(self, secret_sha256: str, *, now: datetime) -> LoginLink | None:
        """Use a link up. None: unknown, used or expired. If two try at once, one gets it."""
        row = await self._db.row(
            sa.update(one_time_links)
            .where(
                one_time_links.c.secret_sha256 == secret_sha256,
                one_time_links.c.used_at.is_(None),
                one_time_links.c.expires_at > now,
            )
            .values(used_at=now)
            .returning(one_time_links)
        )
        if row is None:
            return None
        return LoginLink(
            principal=Principal(name=row.name, role=Role(row.role)),
            created_at=row.created_at,
            created_by=row.created_by,
        )

    async def add_session(
        self,
        *,
        principal: Principal,
        secret_sha256: str,
        token_id: str | None,
        link: LoginLink | None,
        expires_at: datetime,
        now: datetime,
    ) -> Session:
        statement = sa.insert(sessions).values(
            secret_sha256=secret_sha256,
            name=principal.name,
            role=principal.role,
            token_id=token_id,
            link_created_at=None if link is None else link.created_at,
            link_created_by=None if link is None else link.created_by,
            created_at=now,
            expires_at=expires_at,
        )
        return _session((await self._db.execute(statement.returning(sessions))).one())

    async def find_sessions(self, secret_sha256s: Collection[str], *, now: datetime) -> dict[str, Session]:
        """Return valid sessions by the SHA-256 of their secret; records their use, as for tokens."""
        rows = await self._db.rows(
            sa.select(sessions).where(sessions.c.secret_sha256.in_(secret_sha256s), *_living(now))
        )
        stale = [row.id for row in rows if row.last_used_at is None or now - row.last_used_at > USE_NOTED_EVERY]
        if stale:
            # As for tokens.
            await self._db.execute(sa.update(sessions).where(sessions.c.id.in_(stale)).values(last_used_at=now))
        return {row.secret_sha256: _session(row) for row in rows}

    async def list_sessions(self, *, now: datetime) -> list[Session]:
        """Return all valid sessions, newest first, with the names of their tokens."""
        rows = await self._db.rows(
            sa.select(sessions, tokens.c.name.label("token"))
            .outerjoin(tokens, tokens.c.id == sessions.c.token_id)
            .where(*_living(now))
            .order_by(sessions.c.created_at.desc(), sessions.c.id)
        )
        return [_session(row, token=row.token) for row in rows]

    async def end_session(self, session_id: str, *, now: datetime) -> Session:
        """Raises NotFoundError unless it is valid."""
        known = as_uuid(session_id)
        statement = sa.update(sessions).where(sessions.c.id == known, *_living(now)).values(revoked_at=now)
        row = None if known is None else await self._db.row(statement.returning(sessions))
        if row is None:
            raise NotFoundError(f"no session {session_id} is open; `fenceline sessions list` shows all sessions")
        return _session(row)

    async def revoke_session(self, secret_sha256: str, *, now: datetime) -> None:
        await self._db.execute(
            sa.update(sessions)
            .where(sessions.c.secret_sha256 == secret_sha256, sessions.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )

    async def add_run_token(self, *, scope: RunTokenScope, secret_sha256: str, now: datetime) -> None:
        """Raises ConflictError if the lease has its token already."""
        await self._db.execute(
            sa.insert(run_tokens).values(
                secret_sha256=secret_sha256,
                run_id=scope.run_id,
                ordinal=scope.ordinal,
                lease=scope.lease,
                created_at=now,
            )
        )

    async def find_run_token(self, secret_sha256: str) -> RunTokenScope | None:
        row = await self._db.row(sa.select(run_tokens).where(run_tokens.c.secret_sha256 == secret_sha256))
        return None if row is None else RunTokenScope(run_id=row.run_id, ordinal=row.ordinal, lease=row.lease)

    async def claim_key(self, *, principal: str, key: str, request_sha256: str, now: datetime) -> StoredAnswer | None:
        """Take an idempotency key: None if it is free, else the stored answer, after its holder has committed."""
        # The insert waits for another transaction with the key, and sees its end.
        taken = await self._db.row(
            postgresql.insert(idempotency_keys)
            .values(principal=principal, key=key, request_sha256=request_sha256, created_at=now)
            .on_conflict_do_nothing(index_elements=["principal", "key"])
            .returning(idempotency_keys.c.key)
        )
        if taken is not None:
            return None
        row = (
            await self._db.execute(
                sa.select(idempotency_keys).where(
                    idempotency_keys.c.principal == principal, idempotency_keys.c.key == key
                )
            )
        ).one()
        return StoredAnswer(request_sha256=row.request_sha256, status=row.status, body=row.body)

    async def store_answer(self, *, principal: str, key: str, status: int, body: Any) -> None:
        await self._db.execute(
            sa.update(idempotency_keys)
            .where(idempotency_keys.c.principal == principal, idempotency_keys.c.key == key)
            .values(status=status, body=body)
        )


def _token(row: sa.Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        created_at=row.created_at,
        created_by=row.created_by,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )


def _living(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return sessions.c.revoked_at.is_(None), sessions.c.expires_at > now


def _session(row: sa.Row[Any], *, token: str | None = None) -> Session:
    return Session(
        id=row.id,
        principal=Principal(name=row.name, role=Role(row.role)),
        token_id=row.token_id,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        token=token,
        link_created_at=row.link_created_at,
        link_created_by=row.link_created_by,
    )
