"""REST schemas of queries and their batches."""

from __future__ import annotations

from datetime import datetime

from app.kit.page import Page
from app.kit.web.api.shown import made, shows
from app.products.dataframes import batch, summary

BY_DRIVER = "By the clock of the driver’s host."
STATE = "Sum over the stateful operators; null: the query has none."


def _lengths(one: batch.QueryBatch) -> dict[str, int]:
    return {str(part): ms for part, ms in one.lengths_ms().items()}


@shows(batch.QueryBatch)
class Batch:
    """A finished batch of Structured Streaming. A repeated batch replaces the earlier report."""

    query_id = "Of the checkpoint; a new checkpoint counts batches from 0 again."
    started_at = BY_DRIVER
    ended_at: datetime
    trigger_ms = "Duration of the whole trigger."
    parts_ms = "Spark’s `durationMs` without `triggerExecution`."
    lengths_ms: dict[str, int] = made(_lengths)
    output_rows = "Committed rows; null: Spark does not know."
    state_rows = STATE
    state_bytes = STATE
    late_rows = "Rows that were behind the watermark, and were dropped; null: the query has no state."
    watermark = "Event time; null: the query has none, or it has not moved yet."


@shows(batch.QueryStatus)
class QueryReport:
    """The newest report of a driver."""

    since = "The first report of this state in the lease."
    sent_at = BY_DRIVER
    received_at = "By the server’s clock."


@shows(summary.QuerySummary)
class Query:
    """The query of a pipeline, from its newest report and its newest 100 batches."""

    state = "Null: no driver of the live run has reported, or no run is live."
    is_reporting = "Whether a report came within the last 15 s."
    is_live = "Whether a run of the pipeline is live."
    status = "Null: no driver has ever reported."
    trigger_interval_ms = "Of the current revision; null: it has no query."
    newest = "Null: no batch is kept."
    median_trigger_ms = "Of the newest 20 batches."
    input_rows_per_s = "Of the batches that ended in the last minute, or in three trigger intervals."
    output_rows_per_s = "The same of the committed rows; null: Spark does not know them."
    watermark_age_ms = "Now minus the watermark; negative when event time is ahead."
    late_rows = "Sum over the newest `late_in_batches` batches; null: the query has no state."
    late_in_batches = "The batches that `late_rows` counts."


@shows(Page[batch.QueryBatch], optional=True)
class BatchPage:
    pass
