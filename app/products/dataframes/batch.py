"""A query's newest state and its batches, as stored and shown."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from app.products.dataframes.wire import QueryState

KEPT_FOR = timedelta(days=7)
MOST_BATCHES = 10_000
"""The newest batches of a pipeline that are kept."""


class SparkPart(StrEnum):
    """The parts of a trigger, by Spark's names, in the order in which they run.

    Source: org.apache.spark.sql.execution.streaming.MicroBatchExecution, Spark 4.2.
    """

    LATEST_OFFSET = "latestOffset"
    WAL_COMMIT = "walCommit"
    GET_BATCH = "getBatch"
    QUERY_PLANNING = "queryPlanning"
    ADD_BATCH = "addBatch"
    COMMIT_OFFSETS = "commitOffsets"
    COMMIT_BATCH = "commitBatch"


class BatchPart(StrEnum):
    """Spark's parts by purpose. OTHER: the rest of the trigger, which Spark does not measure."""

    OFFSETS = "offsets"
    PLANNING = "planning"
    ADDING = "adding"
    COMMITTING = "committing"
    OTHER = "other"


SPARK_PARTS: dict[BatchPart, tuple[SparkPart, ...]] = {
    BatchPart.OFFSETS: (SparkPart.LATEST_OFFSET, SparkPart.WAL_COMMIT),
    BatchPart.PLANNING: (SparkPart.GET_BATCH, SparkPart.QUERY_PLANNING),
    BatchPart.ADDING: (SparkPart.ADD_BATCH,),
    BatchPart.COMMITTING: (SparkPart.COMMIT_OFFSETS, SparkPart.COMMIT_BATCH),
    BatchPart.OTHER: (),
}


class QueryBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A finished batch. A repeated batch replaces the row of its number.

    started_at: by the clock of the driver's host. None, as in BatchProgress: not known, or the query has none.
    """

    query_id: str
    batch: int
    run_id: str
    lease: int
    started_at: datetime
    trigger_ms: int
    parts_ms: dict[str, int]
    input_rows: int
    output_rows: int | None
    state_rows: int | None
    state_bytes: int | None
    late_rows: int | None
    state_operators: dict[str, int]
    watermark: datetime | None
    received_at: datetime

    @property
    def ended_at(self) -> datetime:
        return self.started_at + timedelta(milliseconds=self.trigger_ms)

    def lengths_ms(self) -> dict[BatchPart, int]:
        """Return the duration of each part, in the order of SPARK_PARTS; their sum is at least the trigger's."""
        lengths = {part: sum(self.parts_ms.get(one, 0) for one in of_spark) for part, of_spark in SPARK_PARTS.items()}
        lengths[BatchPart.OTHER] = max(0, self.trigger_ms - sum(lengths.values()))
        return lengths


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A batch with its place in the list: later rows have higher ids."""

    id: int
    batch: QueryBatch


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The newest report of a pipeline's query. since: the first report of this state in its lease.

    sent_at: by the clock of the driver's host. received_at: by the server's.
    """

    run_id: str
    lease: int
    query_id: str
    state: QueryState
    since: datetime
    sent_at: datetime
    received_at: datetime
