"""What is kept of checks: how the newest one ended, and every contradiction that was found."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.products.offset_log.check import Finding
from app.products.offset_log.verdict import Figures, Standing

KEPT_FOR = timedelta(days=14)
"""What was told. The replay of what is left of it cannot be surer than what is left."""
FINDINGS_KEPT_FOR = timedelta(days=30)
MARKED_FOR = timedelta(days=7)
"""So long a pipeline is marked after its newest contradiction, wherever it is shown."""
MOST_EVENTS = 10_000
"""Of one attempt and partition; what is older is a hole from then on. A task that aborts ten times a second for days
would otherwise fill the disk with it."""


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """since: from when on what was told was replayed. partitions: how many stand how."""

    checked_at: datetime
    since: datetime | None
    standing: Standing
    figures: Figures
    partitions: dict[Standing, int]
    doubts: tuple[str, ...] = ()


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    found_at: datetime
    finding: Finding
