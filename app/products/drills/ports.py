"""What the watch over drills asks of the outside: a freeze of our own process, and an audit of a stretch of time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from app.kit.db.unit_of_work import UnitOfWork
from app.products.drills.drill import AuditFigures, Drill

FreezeSelf = Callable[[float], Awaitable[str]]
"""Stops this very process for that many seconds, thawed by a watchdog; why it was not done, empty if it was."""


class AuditWord(msgspec.Struct, frozen=True, kw_only=True):
    """How the audit of a drill is: not through yet, or counted, or `no_audit` says why there is none."""

    audit_id: str | None = None
    figures: AuditFigures | None = None
    no_audit: str = ""

    @property
    def is_through(self) -> bool:
        return self.figures is not None or bool(self.no_audit)


class DrillAudits(Protocol):
    async def ask(self, uow: UnitOfWork, drill: Drill) -> AuditWord:
        """Begin the audit of the drill's time, or ask how the one that was begun (`drill.audit_id`) is.

        The caller holds the drill's row and commits: an audit that its drill does not know would be nobody's.
        """
        ...
