"""The command log: who did what to which thing, when and why. Every change writes one row in its own transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from app.kit.access import Role, Verb


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `target` is `<noun>:<name or id>`; `details` holds what changed, never a secret.

    outcome: one short sentence on what came of it.
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
