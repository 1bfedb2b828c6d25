"""Audits that other products ask for; app/products/audits/service/on_behalf.py carries the requests out."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from app.core.audit_figures import AuditWord
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork


class AskedAudits(Protocol):
    """The caller commits: an audit must not exist without the row that has its id."""

    async def ask(
        self,
        uow: UnitOfWork,
        *,
        pipeline: str,
        begin: datetime,
        end: datetime,
        by: Principal,
        why: str,
        now: datetime,
    ) -> AuditWord:
        """Request an audit of that time range, by the pipeline's plan. Raises ConflictError while one is open."""
        ...

    async def word(self, uow: UnitOfWork, audit_id: str) -> AuditWord:
        """Raises NotFoundError."""
        ...

    async def stop(self, uow: UnitOfWork, audit_id: str, *, by: Principal, why: str, now: datetime) -> None:
        """Stop the audit; an audit that has ended does not change. Raises NotFoundError."""
        ...

    async def is_waiting(self, uow: UnitOfWork, audit_id: str) -> bool:
        """Return whether it has not begun: the pipeline may still process its time range. Raises NotFoundError."""
        ...
