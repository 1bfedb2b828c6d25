"""The port through which the auditor starts and ends Spark applications."""

from __future__ import annotations

from typing import Protocol

from app.core.runs.launcher import Submitted
from app.products.audits.audit import Audit
from app.products.audits.decision import SeenDriver
from app.products.audits.wire import AuditOrder


class AuditLauncher(Protocol):
    async def submit(self, order: AuditOrder) -> Submitted:
        """Start the application of one audit. Raises UnavailableError with the reason; nothing is started."""
        ...

    async def observe(self, audit: Audit) -> SeenDriver:
        """Observe its driver: UNKNOWN if that runs on another host."""
        ...

    async def signal(self, audit: Audit, *, is_kill: bool) -> None:
        """SIGTERM to the Python driver, or SIGKILL to driver and JVM, where they run on this host; else do nothing."""
        ...
