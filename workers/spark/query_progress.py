"""A batch from Spark's StreamingQueryProgress: for the report of batches, and for the heartbeats of the writers."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.runs.task import PartitionProgress
from app.products.dataframes.wire import BatchProgress

_WHOLE_TRIGGER = "triggerExecution"
_BEFORE_ANY_EVENT_MS = 0
"""The watermark of a query that has seen no event yet."""

_Offsets = dict[str, dict[str, int]]
"""Offsets of a Kafka source: {topic: {partition: offset}}."""


class _Source(msgspec.Struct, rename="camel"):
    end_offset: _Offsets | None = None
    latest_offset: _Offsets | None = None


class _Operator(msgspec.Struct, rename="camel"):
    operator_name: str = ""
    num_rows_total: int = 0
    memory_used_bytes: int = 0
    num_rows_dropped_by_watermark: int = 0


class _EventTime(msgspec.Struct):
    watermark: datetime | None = None


class _Sink(msgspec.Struct, rename="camel"):
    num_output_rows: int = -1
    metrics: dict[str, str] = {}


class Progress(msgspec.Struct, rename="camel", kw_only=True):
    """One finished batch, decoded from Spark's JSON (org.apache.spark.sql.streaming.StreamingQueryProgress, 4.2)."""

    batch: int = msgspec.field(name="batchId")
    timestamp: datetime
    input_rows: int = msgspec.field(name="numInputRows", default=0)
    duration_ms: dict[str, int] = {}
    event_time: _EventTime = msgspec.field(default_factory=_EventTime)
    state_operators: list[_Operator] = []
    sources: list[_Source] = []
    sink: _Sink = msgspec.field(default_factory=_Sink)

    @property
    def metrics(self) -> dict[str, str]:
        """The sink's own metrics: totals since the start of the query."""
        return self.sink.metrics

    def to_wire(self) -> BatchProgress:
        parts = dict(self.duration_ms)
        operators = self.state_operators
        return BatchProgress(
            batch=self.batch,
            started_at_ms=_ms(self.timestamp),
            trigger_ms=parts.pop(_WHOLE_TRIGGER, sum(parts.values())),
            parts_ms=parts,
            input_rows=self.input_rows,
            output_rows=self.sink.num_output_rows if self.sink.num_output_rows >= 0 else None,
            state_rows=sum(each.num_rows_total for each in operators) if operators else None,
            state_bytes=sum(each.memory_used_bytes for each in operators) if operators else None,
            state_operators=self._state_operators(),
            late_rows=sum(each.num_rows_dropped_by_watermark for each in operators) if operators else None,
            watermark_ms=self._watermark_ms(),
        )

    def partitions(self) -> tuple[PartitionProgress, ...]:
        """The partitions of the sources; of a topic that two streams read, the one that has read less."""
        read: dict[tuple[str, int], int] = {}
        latest: dict[tuple[str, int], int] = {}
        for source in self.sources:
            for place, offset in _flat(source.end_offset).items():
                read[place] = min(offset, read.get(place, offset))
            for place, offset in _flat(source.latest_offset).items():
                latest[place] = max(offset, latest.get(place, offset))
        return tuple(
            PartitionProgress(
                topic=topic, partition=partition, position=offset, committed=offset, end=latest.get((topic, partition))
            )
            for (topic, partition), offset in sorted(read.items())
        )

    def _state_operators(self) -> dict[str, int]:
        rows: dict[str, int] = {}
        for each in self.state_operators:
            rows[each.operator_name] = rows.get(each.operator_name, 0) + each.num_rows_total
        return rows

    def _watermark_ms(self) -> int | None:
        if self.event_time.watermark is None:
            return None
        found = _ms(self.event_time.watermark)
        return None if found == _BEFORE_ANY_EVENT_MS else found


def decode(said: str) -> Progress:
    """Raises msgspec.ValidationError."""
    return msgspec.json.decode(said, type=Progress)


def _flat(offsets: _Offsets | None) -> dict[tuple[str, int], int]:
    return {
        (topic, int(partition)): offset
        for topic, partitions in (offsets or {}).items()
        for partition, offset in partitions.items()
    }


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
