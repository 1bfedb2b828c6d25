"""The kept results of checks: the newest one, and every contradiction."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.products.offset_log.check import OffsetFinding
from app.products.offset_log.verdict import Figures, OffsetLogStanding

KEPT_FOR = timedelta(days=14)
"""Retention of offset events."""
FINDINGS_KEPT_FOR = timedelta(days=30)
MARKED_FOR = timedelta(days=7)
"""Time for which a pipeline is marked after its newest contradiction."""
MOST_EVENTS = 10_000
"""Most events of one attempt and partition. Older ones count as missing: a task that aborts ten times a second for days
would otherwise fill the disk."""


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """since: start of the replayed range. partitions: number of partitions by status."""

    checked_at: datetime
    since: datetime | None
    standing: OffsetLogStanding
    figures: Figures
    partitions: dict[OffsetLogStanding, int]
    doubts: tuple[str, ...] = ()


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    found_at: datetime
    finding: OffsetFinding
