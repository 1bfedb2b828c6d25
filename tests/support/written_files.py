"""References to files as tasks write them, made up: what a test does not name is the same in each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from app.core.pipelines.pipeline import ByDate, ByField, FileSink
from app.core.wire import file_references
from app.core.wire.file_references import FileReference, InputRange
from app.products.files.reading import Portion, TopicMessage
from app.products.files.written_file import InputOffsets, WrittenFile

SCHEMA: dict[str, Any] = {"type": "record", "name": "flight", "fields": [{"name": "id", "type": "string"}]}
SINK = FileSink(root="file:///lake", partition_by=(ByField(name="user", field="user.id"), ByDate(name="date")))
AT_MS = 1_767_225_600_000
"""The beginning of 2026."""


def reference(number: int = 0, *, user: str = "anna", **fields: Any) -> FileReference:
    """Number N of checkpoint 1: opened when 2026 began, filled for 30 s, uploaded in 900 ms."""
    values: dict[str, Any] = {
        "path": f"flights/user={user}/date=2026-01-01/{number:032x}.avro",
        "root": SINK.root,
        "size_bytes": 1_000,
        "records": 10,
        "sha256": f"{number:064x}",
        "codec": "zstandard",
        "partition": {"user": user, "date": "2026-01-01"},
        "inputs": (InputRange(topic="in", partition=0, first_offset=number * 10, last_offset=number * 10 + 9),),
        "schema": SCHEMA,
        "fingerprint": "f" * 64,
        "pipeline": "flights",
        "transactional_id": "fl.t.flights.0.0",
        "attempt": "1.0",
        "checkpoint": 1,
        "opened_at_ms": AT_MS,
        "closed_at_ms": AT_MS + 30_000,
        "uploaded_at_ms": AT_MS + 30_900,
    }
    return FileReference(**{**values, **fields})


def message(offset: int, of: FileReference | bytes | None = None, *, committed_ms: int | None = None) -> TopicMessage:
    """Its reference, at an offset of its topic, produced 12 ms after the upload."""
    value = reference(offset) if of is None else of
    encoded = value if isinstance(value, bytes) else file_references.encode(value)
    return TopicMessage(offset, AT_MS + 30_912, encoded, committed_ms=committed_ms)


def portion(*messages: TopicMessage, partition: int = 0, start: int | None = None, **fields: Any) -> Portion:
    """Read from `start` up to behind the last message and its marker, which is where the log ends."""
    begin = start if start is not None else (messages[0].offset if messages else 0)
    end = messages[-1].offset + 2 if messages else begin
    values: dict[str, Any] = {
        "partition": partition,
        "start_offset": begin,
        "next_offset": end,
        "end_offset": end,
        "messages": messages,
    }
    return Portion(**{**values, **fields})


def written(number: int = 0, *, partition: Mapping[str, str] | None = None, **fields: Any) -> WrittenFile:
    """As a server keeps it: referenced 12 ms after the upload, committed 8 ms later."""
    begun = datetime.fromtimestamp(AT_MS / 1000, UTC)
    values: dict[str, Any] = {
        **{name: getattr(reference(number), name) for name in WrittenFile.__struct_fields__ if name in _SAME},
        "partition": dict(partition or {"user": "anna", "date": "2026-01-01"}),
        "inputs": (InputOffsets(topic="in", partition=0, first_offset=number * 10, last_offset=number * 10 + 9),),
        "opened_at": begun,
        "closed_at": begun + timedelta(seconds=30),
        "uploaded_at": begun + timedelta(seconds=30.9),
        "referenced_at": begun + timedelta(seconds=30.912),
        "committed_at": begun + timedelta(seconds=30.920),
        "seen_at": begun + timedelta(seconds=32),
        "topic": "out",
        "topic_partition": 0,
        "offset": number,
    }
    return WrittenFile(**{**values, **fields})


_SAME = set(FileReference.__struct_fields__) - {"partition", "inputs"}


def later(file: WrittenFile, by: timedelta) -> WrittenFile:
    """The same with every time so much later."""
    times = ("opened_at", "closed_at", "uploaded_at", "referenced_at", "seen_at")
    moved = {name: getattr(file, name) + by for name in times}
    committed_at = None if file.committed_at is None else file.committed_at + by
    return msgspec.structs.replace(file, committed_at=committed_at, **moved)
