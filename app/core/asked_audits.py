"""Audits that other products ask for; app/products/audits/service/on_behalf.py carries the requests out."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork


class AuditFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of ids that an audit found; `read` and `expected` are in records.

    unexpected: outputs without an input. dangling: committed references to files that are missing or other ones.
    incomplete: why it could not see everything; else empty.
    """

    audit_id: str
    read: int
    expected: int
    lost: int
    duplicated: int
    unexpected: int = 0
    dangling: int = 0
    incomplete: str = ""


class AuditWord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an audit: not over yet, or counted, or `no_audit` says why there is none."""

    audit_id: str | None = None
    figures: AuditFigures | None = None
    no_audit: str = ""

    @property
    def is_through(self) -> bool:
        return self.figures is not None or bool(self.no_audit)


class AskedAudits(Protocol):
    """The caller commits: an audit must not exist without the row that knows its id."""

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
        """Ask for an audit of that time, by the pipeline's plan. Raises ConflictError while another one lives."""
        ...

    async def word(self, uow: UnitOfWork, audit_id: str) -> AuditWord:
        """Raises NotFoundError."""
        ...

    async def stop(self, uow: UnitOfWork, audit_id: str, *, by: Principal, why: str, now: datetime) -> None:
        """Stop the audit; one that is over stays as it is. Raises NotFoundError."""
        ...

    async def is_waiting(self, uow: UnitOfWork, audit_id: str) -> bool:
        """Whether it has not begun: the pipeline may still be processing its time. Raises NotFoundError."""
        ...
