"""REST schemas of queries and their batches."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.kit.page import Page
from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import made, shows
from app.kit.web.api.words import Why
from app.products.dataframes import batch, new_checkpoint, summary
from app.products.dataframes.new_checkpoint import Begin

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
    state_operators = "Rows of the state by Spark’s name of the operator; empty: the query has none."
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


Location = Annotated[str, Field(min_length=1, max_length=1000)]


class NewCheckpointGiven(Body):
    """begin, checkpoint: those of the plan; null: as the plan without them.

    expected_batch: `newest_batch` of the confirmed plan; 412 if it is another one by now.
    """

    begin: Annotated[Begin | None, Field(strict=False)] = None
    checkpoint: Location | None = None
    expected_batch: Annotated[int | None, Field(ge=-1, lt=2**63)] = None
    why: Why = None


@shows(new_checkpoint.NewCheckpointPlan)
class NewCheckpointPlan:
    """The effect of a new checkpoint: of the command that was carried out, or that would be."""

    left = "Location of the old checkpoint, which stays as it is."
    checkpoint = "Location of the new one."
    revision = "The revision that has the new location."
    begin = "`start_position`: of the definition. `committed`: the end of the newest committed batch."
    committed_refused = "Why the query cannot begin at the committed offsets; null: it can."
    newest_batch: int = made(lambda plan: plan.newest_batch)
    read_again: int = made(lambda plan: plan.read_again)
    never_read: int = made(lambda plan: plan.never_read)
    has_state = "Null: no batch of this query is recorded."
    state = "The state that is lost, by operator."
    effects = "Effects on records, output and state, as sentences."
    kafka = "Effects on markers, offsets and transactional ids in Kafka, as sentences."
    refusals = "Reasons against the command now, each with the next step; empty: it can be carried out."


@shows(new_checkpoint.SourcePartition)
class NewCheckpointPartition:
    """A source partition in offsets, which count markers of transactions, too."""

    committed = "End of the newest committed batch; null: no batch has read the partition."
    begin = "First offset of the new query."
    read_again: int
    never_read: int


@shows(new_checkpoint.WriterState)
class NewCheckpointWriter:
    """A writer with its marker and transactional id."""

    marker = "Its newest committed batch, -1 before the first; null: it has no marker."
    state = "Of its transactional id, as the coordinator reports it; null: the coordinator does not know it."


@shows(new_checkpoint.LostState)
class LostState:
    """An operator of the query, whose state is lost."""

    name = "Spark’s name of the operator."
    rows = "After the newest recorded batch."
