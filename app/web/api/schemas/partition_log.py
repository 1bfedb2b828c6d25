"""A partition's log at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.partition_log.entries import EntryState
from app.web.api.schemas.base import Answer


class Content(Answer):
    """Bytes of a record, as text where they are UTF-8; long ones are cut."""

    text: str
    is_base64: bool = False
    size_bytes: int
    is_cut: bool = False


class Header(Answer):
    name: str
    value: Content | None


class LogRecord(Answer):
    """One record; null stands for null, and for what was not asked for."""

    offset: int
    timestamp_ms: int
    key: Content | None = None
    value: Content | None = None
    headers: list[Header] = Field(default=[])


class Decided(Answer):
    """What a marker decides, as far as this answer has it."""

    first_offset: int | None
    record_count: int
    is_whole: Annotated[bool, Field(description="False when records before this answer may belong to it.")]


class LogEntry(Answer):
    """One batch as it lies in the log. null stands for "none", or "not known" of a batch that cannot be read."""

    base_offset: int
    last_offset: int
    state: Annotated[
        EntryState, Field(description="`unknown`: its marker, if there is one, lies beyond where this answer ends.")
    ]
    size_bytes: int
    timestamp_ms: int | None = None
    record_count: int | None = None
    compression: str | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    is_transactional: bool = False
    is_control: bool = False
    transactional_id: str | None = None
    marker: Annotated[str | None, Field(description="COMMIT or ABORT, of a control batch.")] = None
    coordinator_epoch: int | None = None
    decided_at: Annotated[int | None, Field(description="The offset of the marker that decided it.")] = None
    decides: Decided | None = None
    note: Annotated[str | None, Field(description="What a reader should know of it, in words.")] = None
    records: list[LogRecord] = Field(default=[])


class LogBounds(Answer):
    """Readers of committed data get what is before the last stable offset; the high watermark is the end."""

    first_offset: int
    last_stable_offset: int
    high_watermark: int


class PartitionLog(Answer):
    topic: str
    partition: int
    bounds: LogBounds
    start: int
    next_offset: Annotated[int, Field(description="Where the next look goes on.")]
    is_at_end: bool
    entries: list[LogEntry]
    ids_note: Annotated[str | None, Field(description="Why transactional ids are not known, or may be fewer.")] = None
