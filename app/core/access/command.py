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
