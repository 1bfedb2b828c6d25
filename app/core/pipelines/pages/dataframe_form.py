"""A query of DataFrames in a pipeline's form: its streams, its code, and the fields that it hides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.core.pipelines.dataframe_checks import MIN_TRANSACTION_MS
from app.core.pipelines.pipeline import DataframeQuery, OutputMode, PipelineDefinition, StateStore
from app.kit.web.pages.form_rows import rows_of, with_rows

KIND = "dataframe"
STREAMS = "transform.streams"
STREAM_FIELDS = ("name", "topic", "schema", "event_time", "watermark_ms")
CODE = "transform.code"
SQL, FILE = "sql", "file"
"""The values of the field CODE, which no definition has."""
CHOICES: Mapping[str, Sequence[tuple[str, str]]] = {
    "transform.output_mode": [
        (OutputMode.APPEND, "append: rows that are final"),
        (OutputMode.UPDATE, "update: changed rows"),
        (OutputMode.COMPLETE, "complete: all rows in every batch"),
    ],
    "transform.state_store": [(StateStore.ROCKSDB, "RocksDB, on disk"), (StateStore.MEMORY, "memory")],
}
HIDDEN = frozenset(
    {
        "instances",
        "processing_guarantee",
        "offset_fencing",
        "group_protocol",
        "commit_interval_ms",
        "errors.policy",
        "errors.dead_letter_topic",
        "errors.max_bad",
        "errors.window_records",
        "consumer_overrides",
        "producer_overrides",
    }
)
"""Fields that a query does not have: their values in the form are ignored."""
_PLAIN = (
    "checkpoint",
    "output_mode",
    "trigger_ms",
    "max_offsets_per_trigger",
    "state_store",
    "shuffle_partitions",
    "executor_cores",
)
_TIMEOUT = "transaction_timeout_ms"
_DEFAULT_TIMEOUT_MS = PipelineDefinition(
    cluster="", source_topics=(), group_id="", sink_topic=""
).transaction_timeout_ms
_OPTIONAL = frozenset({"event_time", "watermark_ms"})
_UNFIT = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


def is_chosen(values: Mapping[str, str]) -> bool:
    return values.get("transform.kind") == KIND


def values_of(query: DataframeQuery | None) -> dict[str, str]:
    """Return the form's fields; for another kind they have the values that are shown once it is chosen."""
    shown = query or DataframeQuery(streams=(), checkpoint="", sql="")
    values = {f"transform.{part}": _text(getattr(shown, part)) for part in (*_PLAIN, "sql")}
    values[CODE] = FILE if shown.sql is None else SQL
    if query is not None and query.sql is None:
        values |= {f"transform.{part}": _text(getattr(query, part)) for part in ("function", "file_name", "sha256")}
    streams = [{part: _text(getattr(stream, part)) for part in STREAM_FIELDS} for stream in shown.streams]
    return with_streams(values, streams)


def completed(values: Mapping[str, str]) -> dict[str, str]:
    """Return `values` with the source topics of the streams, for which the page of a query has no field.

    A query that was just chosen gets a stream for each source topic. The shortest transaction timeout of a query
    replaces the default one.
    """
    if not is_chosen(values):
        return dict(values)
    topics = [topic for topic in re.split(r"[,\s]+", values.get("source_topics", "")) if topic]
    streams = streams_of(values)
    if not streams:
        streams = [{"name": _UNFIT.sub("_", topic), "topic": topic} for topic in topics or [""]]
        if values.get(_TIMEOUT) == str(_DEFAULT_TIMEOUT_MS):
            values = {**values, _TIMEOUT: str(MIN_TRANSACTION_MS)}
    named = [topic for stream in streams if (topic := stream.get("topic", "").strip())]
    return {**with_streams(values, streams), "source_topics": ", ".join(dict.fromkeys(named))}


def data_of(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the query as plain data for the decoder. Empty fields are left out, unless they are required."""
    data: dict[str, Any] = {"kind": KIND, "checkpoint": ""}
    data |= {part: text for part in _PLAIN if (text := values.get(f"transform.{part}", "").strip())}
    data["streams"] = [_stream(stream) for stream in streams_of(values)]
    if values.get(CODE) == FILE:
        for part in ("function", "file_name", "sha256"):
            data[part] = values.get(f"transform.{part}", "").strip()
    else:
        data["sql"] = values.get("transform.sql", "").strip().replace("\r\n", "\n")
    return data


def streams_of(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the streams' fields, in order."""
    return rows_of(values, STREAMS)


def with_streams(values: Mapping[str, str], streams: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return `values` with these streams instead of its own."""
    return with_rows(values, STREAMS, streams)


def known_fields(values: Mapping[str, str]) -> set[str]:
    """Return the fields at which the form can show a problem."""
    if not is_chosen(values):
        return set()
    rows = (f"{STREAMS}.{index}.{part}" for index in range(len(streams_of(values))) for part in STREAM_FIELDS)
    code = ("transform.sql",) if values.get(CODE) != FILE else ()
    return {STREAMS, CODE, *code, *rows, *(f"transform.{part}" for part in _PLAIN)}


def shown_at(field: str) -> str:
    """Return the field of the form for a field that its page does not have."""
    topic = re.fullmatch(r"source_topics\.(\d+)", field)
    return f"{STREAMS}.{topic[1]}.topic" if topic else STREAMS if field == "source_topics" else field


def _stream(stream: Mapping[str, str]) -> dict[str, str]:
    texts = {part: stream.get(part, "").strip() for part in STREAM_FIELDS}
    return {part: text for part, text in texts.items() if text or part not in _OPTIONAL}


def _text(value: object) -> str:
    return "" if value is None else str(value)


DEFAULTS: Mapping[str, str] = values_of(None)
"""The initial values of fields that have not been on the page yet."""
