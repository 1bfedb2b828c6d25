"""Totals of files, records and bytes, by partition and by hour."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from app.products.files.written_file import WrittenFile, digest

PARTITIONS_KEPT_FOR = timedelta(days=30)
"""Retention of a partition's totals after its last file. The pipeline's totals are kept for ever."""
MOST_PARTITIONS = 100_000
"""Most partitions of one pipeline; those without recent files are deleted first."""
HOURS_KEPT_FOR = timedelta(days=90)


class Total(msgspec.Struct, frozen=True, kw_only=True):
    files: int = 0
    records: int = 0
    size_bytes: int = 0

    def __add__(self, other: Total) -> Total:
        return Total(
            files=self.files + other.files,
            records=self.records + other.records,
            size_bytes=self.size_bytes + other.size_bytes,
        )


NOTHING = Total()


class PartitionTotal(msgspec.Struct, frozen=True, kw_only=True):
    """first_at, last_at: the earliest and the latest `referenced_at` of its files."""

    partition: dict[str, str]
    total: Total
    first_at: datetime
    last_at: datetime


class HourTotal(msgspec.Struct, frozen=True, kw_only=True):
    """hour: its start in UTC; a file counts in the hour of its `referenced_at`."""

    hour: datetime
    total: Total


def total_of(files: Iterable[WrittenFile]) -> Total:
    return sum((_of_one(file) for file in files), start=NOTHING)


def by_partition(files: Iterable[WrittenFile]) -> dict[str, PartitionTotal]:
    """Return the totals by the digest of the partition values."""
    found: dict[str, PartitionTotal] = {}
    for file in files:
        key = digest(file.partition)
        before = found.get(key)
        at = file.referenced_at
        found[key] = PartitionTotal(
            partition=file.partition,
            total=_of_one(file) + (NOTHING if before is None else before.total),
            first_at=at if before is None else min(at, before.first_at),
            last_at=at if before is None else max(at, before.last_at),
        )
    return found


def by_hour(files: Iterable[WrittenFile]) -> list[HourTotal]:
    found: dict[datetime, Total] = {}
    for file in files:
        hour = file.referenced_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        found[hour] = found.get(hour, NOTHING) + _of_one(file)
    return [HourTotal(hour=hour, total=found[hour]) for hour in sorted(found)]


def _of_one(file: WrittenFile) -> Total:
    return Total(files=1, records=file.records, size_bytes=file.size_bytes)
