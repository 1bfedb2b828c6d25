"""References in a topic and the files that they name, as an audit of a file pipeline meets them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from app.core.pipelines.pipeline import ByField, FileSink
from app.core.wire.file_references import FileReference, InputRange, encode
from app.products.audits.specification import AuditSpecification
from tests.support.audits import a_specification
from tests.support.avro_files import avro_bytes

SCHEMA: dict[str, Any] = {"type": "record", "name": "Record", "fields": [{"name": "id", "type": "string"}]}


def a_file_specification(root: Path, source: str = "in", sink: str = "out", **changes: Any) -> AuditSpecification:
    """The specification of an identity pipeline with files below `root`, by the field `id`."""
    files = FileSink(root=root.as_uri(), partition_by=(ByField(name="user", field="user"),))
    return a_specification(source, sink, **{"files": files, "file_roots": (root.as_uri(),), **changes})


def write_ids(
    root: Path,
    number: int,
    ids: Sequence[str],
    *,
    inputs: Sequence[tuple[str, int, int, int]] = (("in", 0, 0, 0),),
    pipeline: str = "pipeline",
    of_root: str | None = None,
) -> FileReference:
    """A file with these ids, and the reference to it; `inputs`: topic, partition, first and last offset."""
    path = f"{pipeline}/user=u1/{number:032x}.avro"
    content = avro_bytes([{"id": id_} for id_ in ids], SCHEMA)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    return FileReference(
        path=path,
        root=of_root or root.as_uri(),
        size_bytes=len(content),
        records=len(ids),
        sha256=hashlib.sha256(content).hexdigest(),
        codec="deflate",
        partition={"user": "u1"},
        inputs=tuple(
            InputRange(topic=topic, partition=partition, first_offset=first, last_offset=last)
            for topic, partition, first, last in inputs
        ),
        schema=SCHEMA,
        fingerprint="f" * 64,
        pipeline=pipeline,
        transactional_id="fl.t.pipeline.0.0",
        attempt="a",
        checkpoint=number,
        opened_at_ms=1,
        closed_at_ms=2,
        uploaded_at_ms=3,
    )


def reference_message(reference: FileReference | bytes | None, offset: int, *, topic: str = "out") -> Message:
    """The record that it is in partition 0 of the sink topic."""
    value = encode(reference) if isinstance(reference, FileReference) else reference
    return Message(
        topic=topic, partition=0, offset=offset, value=value, timestamp=(TIMESTAMP_CREATE_TIME, 1_000 + offset)
    )
