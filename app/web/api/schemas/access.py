"""Tokens, sessions and the command log at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from app.domain.access import PrincipalKind, Role, Verb
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.words import Name, Why


class Principal(Answer):
    """Who is asking."""

    name: str
    role: Role
    kind: PrincipalKind


class TokenGiven(Body):
    name: Name
    role: Annotated[Role, Field(strict=False)]
    why: Why = None


class Token(Answer):
    id: str
    name: str
    role: Role
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    revoked_at: datetime | None


class NewToken(Answer):
    """`secret` is shown this once and not kept."""

    token: Token
    secret: str


class TokenList(Answer):
    items: list[Token]


class Session(Answer):
    """One browser that is logged in. `token` or the one-time link is what it began with."""

    id: str
    principal: Principal
    token_id: str | None
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    token: str | None
    link_created_at: datetime | None
    link_created_by: str | None


class SessionList(Answer):
    items: list[Session]


class Command(Answer):
    """Who did what to which thing, when and why."""

    id: int
    at: datetime
    who: str
    role: Role
    verb: Verb
    target: str
    why: str | None
    details: dict[str, JsonValue]
    outcome: str


class CommandPage(Answer):
    items: list[Command]
    next_cursor: str | None
