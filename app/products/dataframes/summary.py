"""The figures of a query now: its state, rates and watermark, with a sentence about the state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.run import DesiredRunState, Run
from app.kit.words import duration
from app.products.dataframes.batch import QueryBatch, QueryStatus
from app.products.dataframes.wire import QueryState

SUMMED = 100
"""Batches from which the figures are made: the newest ones."""
REPORTS_WITHIN = timedelta(seconds=15)
"""A driver reports every few seconds. Without a report for longer, its state is not known."""
_SHORTEST_SPAN = timedelta(minutes=1)
_TYPICAL = 20
_SECOND = timedelta(seconds=1)

_SENTENCES = {
    QueryState.STARTING: "The driver joins the group, fences older producers, and compares the checkpoint with Kafka.",
    QueryState.WAITING: "The query waits for new records, or for the next trigger.",
    QueryState.RUNNING: "A batch is running.",
    QueryState.HELD: "The next batch is not begun.",
}


class QuerySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A query, from its newest report and its newest SUMMED batches.

    state: None without a report of the live run. is_reporting: whether a report came within REPORTS_WITHIN.
    trigger_interval_ms: of the current revision; None: it has no query.
    median_trigger_ms: of the newest 20 batches.
    input_rows_per_s, output_rows_per_s: None unless the driver reports; see `row_rates`.
    watermark_age_ms: now minus the watermark; negative when event time is ahead.
    late_rows: sum over the `late_in_batches` newest batches; None: the query has no watermark.
    """

    pipeline: str
    sentence: str
    state: QueryState | None
    is_reporting: bool
    is_live: bool
    status: QueryStatus | None
    trigger_interval_ms: int | None
    newest: QueryBatch | None
    median_trigger_ms: float | None
    input_rows_per_s: float | None
    output_rows_per_s: float | None
    watermark: datetime | None
    watermark_age_ms: float | None
    late_rows: int | None
    late_in_batches: int


def summary_of(
    pipeline: str,
    definition: PipelineDefinition,
    run: Run | None,
    status: QueryStatus | None,
    batches: Sequence[QueryBatch],
    *,
    now: datetime,
) -> QuerySummary:
    """Return the figures. run: the live one. batches: newest first; those of an earlier checkpoint are left out."""
    query_id = None if status is None else status.query_id
    batches = [one for one in batches if query_id in ("", None, one.query_id)][:SUMMED]
    is_live = run is not None and (status is None or status.run_id == run.id)
    is_reporting = is_live and status is not None and now - status.received_at <= REPORTS_WITHIN
    interval_ms = None if definition.dataframe is None else definition.dataframe.trigger_ms
    incoming, outgoing = (
        row_rates(batches, status, interval_ms=interval_ms or 0, now=now) if is_reporting and status else (None, None)
    )
    newest = batches[0] if batches else None
    watermark = next((one.watermark for one in batches if one.watermark is not None), None)
    late = [one.late_rows for one in batches if one.late_rows is not None]
    return QuerySummary(
        pipeline=pipeline,
        sentence=_sentence(run, status, is_live=is_live, is_reporting=is_reporting, now=now),
        state=status.state if is_live and status is not None else None,
        is_reporting=is_reporting,
        is_live=run is not None,
        status=status,
        trigger_interval_ms=interval_ms,
        newest=newest,
        median_trigger_ms=median(one.trigger_ms for one in batches[:_TYPICAL]) if batches else None,
        input_rows_per_s=incoming,
        output_rows_per_s=outgoing,
        watermark=watermark,
        watermark_age_ms=None if watermark is None else (now - watermark) / _SECOND * 1000,
        late_rows=sum(late) if late else None,
        late_in_batches=len(late),
    )


def row_rates(
    batches: Sequence[QueryBatch], status: QueryStatus, *, interval_ms: int, now: datetime
) -> tuple[float | None, float | None]:
    """Return input and output rows per second, of the batches that ended in the last minute, or in three intervals.

    The span begins at the oldest of `batches` at the earliest. It ends now by the driver's clock, so a query without
    new records has the rate 0. Output is None unless each batch knows its rows.
    """
    if not batches:
        return None, None
    driver_now = max(status.sent_at + (now - status.received_at), batches[0].ended_at)
    begin = driver_now - max(_SHORTEST_SPAN, 3 * timedelta(milliseconds=interval_ms))
    begin = max(begin, min(one.started_at for one in batches))
    ended = [one for one in batches if one.ended_at > begin]
    seconds = max(1.0, (driver_now - begin) / _SECOND)
    written = [one.output_rows for one in ended]
    known = [rows for rows in written if rows is not None]
    return (
        sum(one.input_rows for one in ended) / seconds,
        sum(known) / seconds if len(known) == len(written) else None,
    )


def _sentence(run: Run | None, status: QueryStatus | None, *, is_live: bool, is_reporting: bool, now: datetime) -> str:
    if run is None:
        return "Never started." if status is None else "The run has ended. The figures are from its last report."
    if status is None or not is_live:
        return "The driver of this run has not reported its query yet. Spark needs some seconds to start."
    if not is_reporting:
        silent_ms = (now - status.received_at) / _SECOND * 1000
        return f"No report from the driver for {duration(silent_ms)}. The figures are from its last report."
    if status.state is QueryState.HELD:
        if run.desired is DesiredRunState.PAUSE:
            return "Paused: no batch begins until the run is resumed."
        if run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL):
            return "Draining: the batches are committed, and the driver ends."
    return _SENTENCES[status.state]
