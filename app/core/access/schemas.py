"""Tokens, sessions and the command log at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core.access import command
from app.kit import access
from app.kit.access import Role
from app.kit.web.api.bodies import Answer, Body
from app.kit.web.api.shown import Json, Shown, shows
from app.kit.web.api.words import Name, Why


@shows(access.Principal)
class Principal:
    """Who is asking."""


class TokenGiven(Body):
    name: Name
    role: Annotated[Role, Field(strict=False)]
    why: Why = None


class NewToken(Answer):
    """`secret` is shown this once and not kept."""

    token: Shown[access.Token]
    secret: str


@shows(access.Session)
class Session:
    """One browser that is logged in. `token` or the one-time link is what it began with."""


@shows(command.Command)
class Command:
    """Who did what to which thing, when and why."""

    details: dict[str, Json]
