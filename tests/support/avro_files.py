"""Avro files in a folder with references to them, as a sink writes both."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import fastavro

from app.core.wire.file_references import FileReference, InputRange
from app.products.files.reader.references import Located

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "flight",
    "fields": [{"name": "id", "type": "long"}, {"name": "carrier", "type": ["null", "string"], "default": None}],
}


def avro_bytes(records: Sequence[Any], schema: dict[str, Any], codec: str = "deflate") -> bytes:
    written = io.BytesIO()
    write: Any = cast("Any", fastavro).writer
    write(written, schema, records, codec=codec)
    return written.getvalue()


def write_file(
    root: Path,
    number: int,
    records: Sequence[Any],
    *,
    schema: dict[str, Any] = SCHEMA,
    pipeline: str = "flights",
    partition: dict[str, str] | None = None,
    codec: str = "deflate",
    uploaded_at_ms: int = 1_000,
) -> FileReference:
    """The reference to a file that is there."""
    partition = {"day": "1"} if partition is None else partition
    folder = "".join(f"{name}={value}/" for name, value in partition.items())
    path = f"{pipeline}/{folder}{number:032x}.avro"
    content = avro_bytes(records, schema, codec)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    return FileReference(
        path=path,
        root=f"file://{root}",
        size_bytes=len(content),
        records=len(records),
        sha256=hashlib.sha256(content).hexdigest(),
        codec=codec,
        partition=partition,
        inputs=(InputRange(topic="in", partition=0, first_offset=0, last_offset=len(records)),),
        schema=schema,
        fingerprint=hashlib.sha256(repr(schema).encode()).hexdigest(),
        pipeline=pipeline,
        transactional_id=f"fl.t.{pipeline}.0.0",
        attempt="1.0",
        checkpoint=number,
        opened_at_ms=uploaded_at_ms,
        closed_at_ms=uploaded_at_ms,
        uploaded_at_ms=uploaded_at_ms,
    )


def located(reference: FileReference, *, offset: int = 0, timestamp_ms: int | None = 1_000) -> Located:
    return Located(reference=reference, topic="files", partition=0, offset=offset, timestamp_ms=timestamp_ms)
