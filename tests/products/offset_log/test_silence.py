"""Attempts that may have owned a partition without a report of it, and between which owners."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.core.wire.offset_events import Teller
from app.products.offset_log.silence import Attempted, silent

NOW = datetime(2026, 11, 23, tzinfo=UTC)
OWNER = Teller(run=1, ordinal=0, task=0, lease=1, attempt=0)
DEAD = Teller(run=1, ordinal=1, task=0, lease=1, attempt=0)


def attempted(
    teller: Teller,
    *,
    first: int | None = None,
    last: int | None = None,
    is_over: bool = False,
    heard_at: datetime | None = None,
    life: int = 0,
) -> Attempted:
    return Attempted(teller=teller, is_over=is_over, complete_at=heard_at, first=first, last=last, life=life)


def test_attempt_with_missing_events_and_without_the_partition_is_silent_there() -> None:
    (found,) = silent([attempted(OWNER, last=4), attempted(DEAD, first=2, last=3)], told=[OWNER], newest_at=NOW)
    assert (found.teller, found.since, found.until) == (DEAD, (1, 3), None)


@pytest.mark.parametrize(
    "other",
    [attempted(DEAD, is_over=True), attempted(DEAD, heard_at=NOW), attempted(OWNER)],
    ids=["over", "heard", "told"],
)
def test_attempt_that_is_over_or_complete_or_reported_the_partition_is_not_silent(other: Attempted) -> None:
    assert silent([other], told=[OWNER], newest_at=NOW) == []
    earlier = attempted(DEAD, heard_at=NOW - timedelta(seconds=1))
    assert len(silent([earlier], told=[OWNER], newest_at=NOW)) == 1


def test_next_attempt_of_the_task_with_an_assignment_ends_the_silence() -> None:
    next_ones = [
        attempted(DEAD._replace(attempt=1), is_over=True),
        attempted(DEAD._replace(lease=2), first=9, last=12, is_over=True),
        attempted(DEAD._replace(run=2), first=11, last=12, is_over=True),
        attempted(DEAD._replace(task=1), first=5, is_over=True),
        attempted(DEAD._replace(lease=0), first=1, is_over=True),
        attempted(DEAD._replace(lease=3), first=4, is_over=True, life=1),
    ]
    (found,) = silent([attempted(DEAD, last=3), *next_ones], told=[OWNER], newest_at=NOW)
    assert found.until == (1, 9)
