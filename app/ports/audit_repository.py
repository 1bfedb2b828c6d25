"""What services ask of the database about audits and the plans that pipelines are audited by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from app.domain.audits.audit import Audit, AuditProgress
from app.domain.audits.doubts import InForce
from app.domain.audits.plan import AuditPlan
from app.domain.page import Page


class AuditRepository(Protocol):
    async def add(self, audit: Audit) -> Audit:
        """Keep it; its id is the database's. Raises ConflictError while another audit of the pipeline lives."""
        ...

    async def get(self, audit_id: str, *, for_update: bool = False) -> Audit: ...

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Audit]:
        """Newest first; their results without examples, ranges and partitions."""
        ...

    async def living(self) -> list[Audit]:
        """Those that have not ended, the oldest first."""
        ...

    async def find_living(self, pipeline: str) -> Audit | None: ...

    async def broken(self, *, since: datetime) -> dict[str, int]:
        """How many that ended since then have proven something wrong, by pipeline; those without one are not in it."""
        ...

    async def in_force(self, pipeline: str, begin: datetime | None, until: datetime | None) -> InForce:
        """Whose instances lived in this span, by their leases. None: from the first start, or up to now."""
        ...

    async def save(self, audit: Audit) -> None:
        """Write what changes in an audit's life, but for its progress."""
        ...

    async def save_progress(self, audit_id: str, progress: AuditProgress) -> None: ...

    async def keep_token(self, audit_id: str, secret_sha256: str) -> None:
        """The token of a driver that is about to be started; the one before it is good for nothing any more."""
        ...

    async def find_by_token(self, secret_sha256: str) -> str | None:
        """The id of the audit that the token was made for."""
        ...

    async def count(self, pipeline: str, numbers: Mapping[str, int]) -> None:
        """Add to the pipeline's counters, which only grow."""
        ...

    async def counts(self) -> dict[str, dict[str, int]]:
        """All counters, by pipeline."""
        ...


class AuditPlanRepository(Protocol):
    async def find(self, pipeline: str, *, for_update: bool = False) -> AuditPlan | None: ...

    async def save(self, plan: AuditPlan) -> None: ...

    async def remove(self, pipeline: str) -> None: ...

    async def scheduled(self) -> list[AuditPlan]:
        """Those that audit by themselves, by pipeline."""
        ...
