"""The command log: user, target, reason and time of each change. Every change writes one row in its own transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from app.kit.access import Role, Verb


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `target` is `<noun>:<name or id>`; `details` has the change, never a secret.

    outcome: the result in one short sentence.
    """

    id: int
    at: datetime
    who: str
    role: Role
    verb: Verb
    target: str
    why: str | None
    details: dict[str, Any]
    outcome: str


class CommandFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted commands, those of the user or loop `who`. A field that is None does not narrow them.

    target: one thing (`pipeline:delayed-flights`), or every thing of a noun (`pipeline`).
    outcome: a part of its sentence, in upper or lower case.
    since, until: at `since` or later, before `until`.
    """

    who: str | None = None
    verb: Verb | None = None
    target: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None
