"""Ports of the drill loop: a freeze of the server's own process, and an audit of a time range."""

from __future__ import annotations

from typing import Protocol

import msgspec

from app.kit.db.unit_of_work import UnitOfWork
from app.products.drills.drill import AuditFigures, Drill


class FreezeSelf(Protocol):
    async def __call__(self, for_s: float) -> str:
        """Freeze this process, which a watchdog started before thaws. Return the reason of a failure, else empty."""
        ...


class AuditWord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a drill's audit: not complete yet, or its figures, or in `no_audit` the reason why it has none."""

    audit_id: str | None = None
    figures: AuditFigures | None = None
    no_audit: str = ""

    @property
    def is_through(self) -> bool:
        return self.figures is not None or bool(self.no_audit)


class DrillAudits(Protocol):
    async def ask(self, uow: UnitOfWork, drill: Drill) -> AuditWord:
        """Start the audit of the drill's time, or return the state of the started one (`drill.audit_id`).

        The caller holds the drill's row and commits, so that every such audit belongs to a drill.
        """
        ...
