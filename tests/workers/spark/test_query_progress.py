"""Spark's progress of a batch, as it is reported."""

from __future__ import annotations

import json
from typing import Any

from app.core.runs.task import PartitionProgress
from app.products.dataframes.wire import BatchProgress
from workers.spark.query_progress import Progress, decode

SAID: dict[str, Any] = {
    "id": "q",
    "runId": "r",
    "name": "p",
    "timestamp": "2026-11-27T01:00:00.250Z",
    "batchId": 12,
    "batchDuration": 900,
    "numInputRows": 200,
    "inputRowsPerSecond": 100.0,
    "durationMs": {"addBatch": 700, "walCommit": 50, "triggerExecution": 900},
    "eventTime": {"max": "2026-11-27T00:59:00.000Z", "watermark": "2026-11-27T00:58:30.000Z"},
    "stateOperators": [
        {"operatorName": "a", "numRowsTotal": 5, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1},
        {"operatorName": "b", "numRowsTotal": 2, "memoryUsedBytes": 10, "numRowsDroppedByWatermark": 0},
    ],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[flights]]",
            "startOffset": None,
            "endOffset": {"flights": {"0": 100, "1": 90}},
            "latestOffset": {"flights": {"0": 130, "1": 95}},
            "numInputRows": 190,
        },
        {"endOffset": {"flights": {"0": 80}}, "latestOffset": {"flights": {"0": 131}}},
    ],
    "sink": {"description": "fenceline p", "numOutputRows": 7, "metrics": {"groupGeneration": "3"}},
}


def of(**changes: Any) -> Progress:
    return decode(json.dumps({**SAID, **changes}))


def test_a_batch_is_reported_with_its_parts() -> None:
    assert of().to_wire() == BatchProgress(
        batch=12,
        started_at_ms=1_795_741_200_250,
        trigger_ms=900,
        parts_ms={"addBatch": 700, "walCommit": 50},
        input_rows=200,
        output_rows=7,
        state_rows=7,
        state_bytes=110,
        state_operators={"a": 5, "b": 2},
        late_rows=1,
        watermark_ms=1_795_741_110_000,
    )


def test_what_spark_does_not_know_is_none() -> None:
    found = of(eventTime={}, stateOperators=[], sink={"description": "s", "numOutputRows": -1}).to_wire()
    assert (found.output_rows, found.state_rows, found.watermark_ms) == (None, None, None)
    assert of(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}).to_wire().watermark_ms is None


def test_a_partition_of_two_streams_has_the_position_of_the_slower_one() -> None:
    def partition(number: int, position: int, end: int) -> PartitionProgress:
        return PartitionProgress(topic="flights", partition=number, position=position, committed=position, end=end)

    assert of().partitions() == (partition(0, 80, 131), partition(1, 90, 95))
