"""Tokens, sessions and the command log in REST."""

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
    """The user of a request."""


class TokenGiven(Body):
    name: Name
    role: Annotated[Role, Field(strict=False)]
    why: Why = None


class NewToken(Answer):
    """`secret` is shown only now and is not stored."""

    token: Shown[access.Token]
    secret: str


@shows(access.Session)
class Session:
    """One browser with a login. It began with `token` or with the one-time link."""


@shows(command.Command)
class Command:
    """One command with its user, target, reason and time."""

    details: dict[str, Json]
