"""The accepted part of a driver's report: possible numbers, and the parts that Spark has."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from app.core.runs.number_bounds import LARGEST, LONGEST_INTERVAL_MS, Sieve, numbers_of
from app.kit.errors import InvalidError
from app.kit.storable import moment_of_ms, storable
from app.products.dataframes.batch import QueryBatch, QueryStatus, SparkPart
from app.products.dataframes.wire import LARGEST_REPORT, BatchProgress, QueryReport

LONGEST_QUERY_ID = 100
"""Spark's ids have 36 characters; a much longer one does not fit into an index."""
LONGEST_OPERATOR = 64
MOST_OPERATORS = 20
AHEAD_AT_MOST = timedelta(days=1)
"""The most by which a driver's clock may be ahead."""
_PARTS = frozenset(str(part) for part in SparkPart)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AcceptedReport(NamedTuple):
    """batches: each number once, in ascending order. dropped: by field."""

    status: QueryStatus
    batches: tuple[QueryBatch, ...]
    dropped: Counter[str]


def accepted_report(report: QueryReport, *, now: datetime) -> AcceptedReport:
    """Return the state and the batches of a report, at most the newest LARGEST_REPORT.

    Raises InvalidError for an impossible batch number.
    """
    _refuse_impossible(report)
    sieve = Sieve()
    report = sieve.bounded(storable(report))
    sieve.dropped["batches"] += max(0, len(report.batches) - LARGEST_REPORT)
    query_id = report.query_id[:LONGEST_QUERY_ID]
    status = QueryStatus(
        run_id=report.run_id,
        lease=report.lease,
        query_id=query_id,
        state=report.state,
        since=now,
        sent_at=_moment(report.sent_at_ms, now),
        received_at=now,
    )
    batches = {
        one.batch: _batch(sieve.bounded(one), report, query_id, sieve, now) for one in report.batches[-LARGEST_REPORT:]
    }
    return AcceptedReport(status, tuple(batches[number] for number in sorted(batches)), +sieve.dropped)


def _refuse_impossible(report: QueryReport) -> None:
    for field, bound, _ in numbers_of(BatchProgress):
        for index, one in enumerate(report.batches):
            value = getattr(one, field)
            if bound.is_refused and not bound.least <= value <= bound.most:
                raise InvalidError(
                    f"{field} is {value}: the range is {bound.least} to {bound.most}", field=f"batches[{index}].{field}"
                )


def _batch(one: BatchProgress, report: QueryReport, query_id: str, sieve: Sieve, now: datetime) -> QueryBatch:
    one = replace(one, parts_ms=_parts(one, sieve))
    return QueryBatch(
        query_id=query_id,
        batch=one.batch,
        run_id=report.run_id,
        lease=report.lease,
        started_at=_moment(one.started_at_ms, now),
        trigger_ms=one.trigger_ms,
        parts_ms=one.parts_ms,
        input_rows=one.input_rows,
        output_rows=one.output_rows,
        state_rows=one.state_rows,
        state_bytes=one.state_bytes,
        late_rows=one.late_rows,
        state_operators=_operators(one, sieve),
        # Event time may be before 1970.
        watermark=None if one.watermark_ms is None else _EPOCH + timedelta(milliseconds=one.watermark_ms),
        received_at=now,
    )


def _parts(one: BatchProgress, sieve: Sieve) -> dict[str, int]:
    """Return Spark's parts, each inside the bound of a duration."""
    kept = {name: ms for name, ms in one.parts_ms.items() if name in _PARTS}
    bounded = {name: min(max(ms, 0), LONGEST_INTERVAL_MS) for name, ms in kept.items()}
    moved = sum(bounded[name] != ms for name, ms in kept.items())
    sieve.dropped["batches.parts"] += len(one.parts_ms) - len(kept) + moved
    return bounded


def _operators(one: BatchProgress, sieve: Sieve) -> dict[str, int]:
    """Return the operators with possible names and numbers of rows, at most MOST_OPERATORS."""
    possible = [
        (name, rows)
        for name, rows in one.state_operators.items()
        if 0 < len(name) <= LONGEST_OPERATOR and 0 <= rows < LARGEST
    ]
    kept = dict(possible[:MOST_OPERATORS])
    sieve.dropped["batches.state_operators"] += len(one.state_operators) - len(kept)
    return kept


def _moment(at_ms: int, now: datetime) -> datetime:
    return min(moment_of_ms(at_ms), now + AHEAD_AT_MOST)
