"""Reports of a query's driver about its batches. The run's claim, heartbeats and outcome are those of every driver.

HTTP on the workers' listener, JSON bodies, `Authorization: Bearer <run token>`:
  POST /workers/v1/dataframe/batches   QueryReport -> QueryAnswer   after each batch, and every few seconds
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.runs.number_bounds import LARGEST, LONGEST_INTERVAL_MS, Bound, Index, MomentMs
from app.core.wire import protocol

BATCHES_PATH = "/workers/v1/dataframe/batches"
LARGEST_REPORT = 100
"""Batches of one report. A driver sends more in several reports, oldest first."""

Count = Annotated[int, Bound(LARGEST, counted_as="batches.counts")]
OptionalCount = Annotated[int | None, Bound(LARGEST, counted_as="batches.counts")]
PartMs = Annotated[int, Bound(LONGEST_INTERVAL_MS, counted_as="batches.durations")]
Moment = Annotated[int | None, Bound(253_402_214_400_000, least=-62_135_596_800_000, counted_as="batches.watermark")]


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One finished batch, from Spark's StreamingQueryProgress.

    Source: org.apache.spark.sql.streaming.StreamingQueryProgress, Spark 4.2.

    parts_ms: Spark's `durationMs` without `triggerExecution`: latestOffset, getBatch, queryPlanning, walCommit,
        addBatch, commitOffsets, commitBatch.
    trigger_ms: the whole trigger (`triggerExecution`).
    output_rows: rows that the sink has committed; None: Spark does not know.
    state_rows, state_bytes: sums over the stateful operators; None: the query has none.
    state_operators: rows of the state by Spark's name of the operator, such as `stateStoreSave`.
    late_rows: rows that the watermark has dropped.
    watermark_ms: event time, milliseconds since 1970; None: the query has no watermark, or it has not moved yet.
    """

    batch: Annotated[int, Bound(LARGEST, is_refused=True)]
    started_at_ms: MomentMs
    trigger_ms: PartMs
    parts_ms: dict[str, int] = {}
    input_rows: Count = 0
    output_rows: OptionalCount = None
    state_rows: OptionalCount = None
    state_bytes: OptionalCount = None
    late_rows: OptionalCount = None
    state_operators: dict[str, int] = {}
    watermark_ms: Moment = None


class QueryState(StrEnum):
    """STARTING: claim, fence and checks. HELD: paused or draining; the next batch is not begun."""

    STARTING = "starting"
    WAITING = "waiting"
    RUNNING = "running"
    HELD = "held"


class QueryReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the query, and its batches since the last answered report. `query_id`: as in its checkpoint."""

    protocol_version: Index = protocol.CURRENT
    run_id: str
    ordinal: Index
    lease: Index
    query_id: str
    state: QueryState
    sent_at_ms: MomentMs
    batches: tuple[BatchProgress, ...] = ()


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`stored`: whether the batches are stored, or will never be, so that the driver forgets them."""

    protocol_version: int = protocol.CURRENT
    stored: bool
