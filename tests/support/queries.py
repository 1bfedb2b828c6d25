"""Pipelines of kind `dataframe` without Spark: their definition, batches and reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from app.core.pipelines.pipeline import DataframeQuery, Stream
from app.core.runs.run import Run
from app.kit.access import RunTokenScope
from app.products.dataframes.batch import QueryBatch
from app.products.dataframes.service.receiving import ReceivedReport, receive_report
from app.products.dataframes.wire import BatchProgress, QueryReport, QueryState
from tests.support.control_plane import ControlPlane

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUERY_ID = "5b0c6f6e-2f0f-4a5e-9a59-6a6f0b1f7e11"
QUERY = DataframeQuery(
    streams=(Stream(name="flights", topic="in", schema="carrier STRING, delay INT"),),
    checkpoint="file:///srv/checkpoints/flights",
    sql="SELECT carrier AS key, avg(delay) AS delay FROM flights GROUP BY carrier",
)
PARTS = {
    "latestOffset": 30,
    "walCommit": 20,
    "getBatch": 1,
    "queryPlanning": 49,
    "addBatch": 600,
    "commitOffsets": 10,
    "commitBatch": 90,
}


def ms_of(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def progress(number: int, *, ended_at: datetime = NOW, **fields: Any) -> BatchProgress:
    """A batch of 900 ms, of which Spark measured 800."""
    trigger_ms = fields.pop("trigger_ms", 900)
    values: dict[str, Any] = {
        "parts_ms": PARTS,
        "input_rows": 1_000,
        "output_rows": 10,
        "state_rows": 500,
        "state_bytes": 2_000_000,
        "late_rows": 0,
        "state_operators": {"stateStoreSave": 500},
        "watermark_ms": ms_of(ended_at - timedelta(minutes=10)),
        **fields,
    }
    started_at_ms = ms_of(ended_at) - trigger_ms
    return BatchProgress(batch=number, started_at_ms=started_at_ms, trigger_ms=trigger_ms, **values)


def batch(number: int, *, ended_at: datetime = NOW, **fields: Any) -> QueryBatch:
    """The same as stored."""
    values: dict[str, Any] = {
        "query_id": QUERY_ID,
        "run_id": "6f1ed002-ab00-4a64-9c3c-1d4e1e2f3a4b",
        "lease": 1,
        "trigger_ms": 900,
        "parts_ms": PARTS,
        "input_rows": 1_000,
        "output_rows": 10,
        "state_rows": 500,
        "state_bytes": 2_000_000,
        "late_rows": 0,
        "state_operators": {"stateStoreSave": 500},
        "watermark": ended_at - timedelta(minutes=10),
        "received_at": ended_at,
        **fields,
    }
    return QueryBatch(batch=number, started_at=ended_at - timedelta(milliseconds=values["trigger_ms"]), **values)


def report(run_id: str, *batches: BatchProgress, **fields: Any) -> QueryReport:
    values: dict[str, Any] = {
        "ordinal": 0,
        "lease": 1,
        "query_id": QUERY_ID,
        "state": QueryState.RUNNING,
        "sent_at_ms": ms_of(NOW),
        **fields,
    }
    return QueryReport(run_id=run_id, batches=batches, **values)


async def send(plane: ControlPlane, message: QueryReport) -> ReceivedReport:
    """Receive the report with the token of its own lease."""
    scope = RunTokenScope(run_id=message.run_id, ordinal=message.ordinal, lease=message.lease)
    async with plane.uow() as uow:
        received = await receive_report(uow, message, scope=scope, now=plane.now)
        await uow.commit()
    return received


async def running_query(plane: ControlPlane, name: str = "flights") -> Run:
    """A run of a pipeline of kind `dataframe`."""
    return await plane.running(name, transform=QUERY)
