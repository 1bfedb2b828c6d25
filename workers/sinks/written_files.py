"""Files of a checkpoint, from the local disk to their references."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from app.core.pipelines.pipeline import FileSink as Settings
from app.core.wire.file_references import FileReference, InputRange
from workers.sinks import avro_file
from workers.sinks.parts import Part
from workers.sinks.uploads import ToUpload
from workers.sinks.values import ValueSchema


class WriterIdentity(NamedTuple):
    """The writer's identity, which every reference has."""

    pipeline: str
    transactional_id: str
    attempt: str


class WrittenFile(NamedTuple):
    """A part that was written; `local` until it is uploaded."""

    values: tuple[str, ...]
    part: Part
    written: avro_file.Written
    path: str
    closed_at_ms: int
    local: Path

    def to_upload(self) -> ToUpload:
        written = self.written
        return ToUpload(local=self.local, path=self.path, size_bytes=written.size_bytes, sha256=written.sha256)


class StoredFile(NamedTuple):
    """A part that the store has completely, verified."""

    file: WrittenFile
    uploaded_at_ms: int


def reference_of(
    stored: StoredFile,
    identity: WriterIdentity,
    settings: Settings,
    schema: ValueSchema,
    *,
    columns: Mapping[str, str],
    checkpoint: int,
) -> FileReference:
    """Return the reference to a file. columns: the value of each partition column."""
    file = stored.file
    return FileReference(
        path=file.path,
        root=settings.root,
        size_bytes=file.written.size_bytes,
        records=file.written.records,
        sha256=file.written.sha256,
        codec=settings.codec.value,
        partition=dict(columns),
        inputs=tuple(
            InputRange(topic=topic, partition=number, first_offset=first, last_offset=last)
            for (topic, number), (first, last) in sorted(file.part.ranges.items())
        ),
        schema=schema.schema,
        fingerprint=schema.fingerprint,
        pipeline=identity.pipeline,
        transactional_id=identity.transactional_id,
        attempt=identity.attempt,
        checkpoint=checkpoint,
        opened_at_ms=file.part.opened_at_ms,
        closed_at_ms=file.closed_at_ms,
        uploaded_at_ms=stored.uploaded_at_ms,
    )
