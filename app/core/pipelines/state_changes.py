"""The effect of a new revision on the checkpoint of a query: its offsets, markers and state.

Source: Spark's guide to Structured Streaming, "Recovery Semantics after Changes in a Streaming Query". The number of
state partitions and the state store are in the offset log (OffsetSeqMetadata); topics and group: docs/dataframes.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, Stream


class StateEffect(StrEnum):
    """NEW_CHECKPOINT: the query cannot go on with the old one, or has a new one. UNKNOWN: it depends on the plan."""

    NEW_CHECKPOINT = "new_checkpoint"
    UNKNOWN = "unknown"


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one changed field; `message` has a sentence with the next step."""

    field: str
    effect: StateEffect
    message: str


_AGAIN = "Run `fenceline new-checkpoint`: its plan shows what is read again"
_IF_STATE = (
    "If the query has state (aggregation, join, deduplication), the checkpoint may not fit: Fenceline cannot judge it. "
    "A query without state goes on. If the start fails, run `fenceline new-checkpoint`"
)


def state_changes(before: PipelineDefinition, after: PipelineDefinition) -> list[StateChange]:
    """Return the changes after which the state of the query is lost or uncertain; empty: the query goes on with it.

    Trigger, bounds of a batch, writers, cores, memory and timeouts keep the state. A new checkpoint folder makes the
    other changes harmless, so it is the only one that is returned then.
    """
    old, new = before.dataframe, after.dataframe
    if old is None and new is None:
        return []
    if old is None or new is None:
        message = (
            "The new checkpoint is empty: the query begins at the committed offsets of the group, without state"
            if old is None
            else "The state of the query is not used any more. Tasks begin at the committed offsets of the group"
        )
        return [StateChange(field="transform.kind", effect=StateEffect.NEW_CHECKPOINT, message=message)]
    if old.checkpoint != new.checkpoint:
        message = (
            "The new checkpoint has no state and no offsets. Run `fenceline new-checkpoint` before the next start: "
            "its plan shows what is read again"
        )
        return [StateChange(field="transform.checkpoint", effect=StateEffect.NEW_CHECKPOINT, message=message)]
    return [*_outside(before, after), *_streams(old.streams, new.streams), *_code(old, new), *_settings(old, new)]


def _outside(before: PipelineDefinition, after: PipelineDefinition) -> Iterator[StateChange]:
    for field, reason in (
        ("cluster", "The checkpoint has offsets of the other cluster"),
        ("group_id", "The markers of the batches are offsets of the old group"),
        ("sink_topic", "The markers of the batches belong to the old sink topic"),
    ):
        if getattr(before, field) != getattr(after, field):
            yield StateChange(field=field, effect=StateEffect.NEW_CHECKPOINT, message=f"{reason}. {_AGAIN}")
    old, new = before.spark.conf, after.spark.conf
    for key in sorted(key for key in old.keys() | new.keys() if key.startswith("spark.sql.")):
        if old.get(key) != new.get(key):
            yield StateChange(field=f"spark.conf.{key}", effect=StateEffect.UNKNOWN, message=_IF_STATE)


def _streams(before: tuple[Stream, ...], after: tuple[Stream, ...]) -> Iterator[StateChange]:
    old = {stream.topic: stream for stream in before}
    added = [stream.topic for stream in after if stream.topic not in old]
    removed = sorted(old.keys() - {stream.topic for stream in after})
    if added or removed:
        parts = [*(f"adds `{topic}`" for topic in added), *(f"removes `{topic}`" for topic in removed)]
        message = f"The change {', '.join(parts)}: Spark keeps the number and topics of its sources. {_AGAIN}"
        yield StateChange(field="transform.streams", effect=StateEffect.NEW_CHECKPOINT, message=message)
        return
    for index, stream in enumerate(after):
        was = old[stream.topic]
        for part in ("name", "schema", "event_time", "watermark_ms"):
            if getattr(was, part) != getattr(stream, part):
                field = f"transform.streams.{index}.{part}"
                yield StateChange(field=field, effect=StateEffect.UNKNOWN, message=_IF_STATE)
    if [stream.topic for stream in before] != [stream.topic for stream in after]:
        message = "The order of the streams may be that of the sources in the checkpoint: Fenceline cannot judge it"
        yield StateChange(field="transform.streams", effect=StateEffect.UNKNOWN, message=message)


def _code(old: DataframeQuery, new: DataframeQuery) -> Iterator[StateChange]:
    if (old.sql is None) != (new.sql is None) or old.sql != new.sql:
        yield StateChange(
            field="transform.sql" if new.sql is not None else "transform.file_name",
            effect=StateEffect.UNKNOWN,
            message=_IF_STATE,
        )
    elif (old.function, old.sha256) != (new.function, new.sha256):
        field = "transform.sha256" if old.sha256 != new.sha256 else "transform.function"
        yield StateChange(field=field, effect=StateEffect.UNKNOWN, message=_IF_STATE)


def _settings(old: DataframeQuery, new: DataframeQuery) -> Iterator[StateChange]:
    if old.output_mode != new.output_mode:
        message = f"A query with state cannot change its output mode with a checkpoint. {_AGAIN}"
        yield StateChange(field="transform.output_mode", effect=StateEffect.NEW_CHECKPOINT, message=message)
    for part, was, reason in (
        ("shuffle_partitions", old.shuffle_partitions, "The state has {} partitions until it has a new checkpoint"),
        ("state_store", old.state_store, "The state is kept in {} until it has a new checkpoint"),
    ):
        if was != getattr(new, part):
            message = f"{reason.format(was)}. {_AGAIN}"
            yield StateChange(field=f"transform.{part}", effect=StateEffect.NEW_CHECKPOINT, message=message)
