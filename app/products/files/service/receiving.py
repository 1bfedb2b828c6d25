"""Convert messages of a sink topic into files: decode, check, and store them in one transaction with the position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

import msgspec

from app.core.wire import file_references
from app.core.wire.file_references import FileReference
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError
from app.kit.storable import moment_of_ms, storable, storable_text
from app.products.files.reading import Portion, Reception, TopicMessage, TopicReading
from app.products.files.schema_history import FileSchema
from app.products.files.store.files import WrittenFileStore
from app.products.files.store.readings import FileReadingStore
from app.products.files.totals import total_of
from app.products.files.written_file import InputOffsets, WrittenFile

LONGEST_PATH = 4_000
LONGEST_NAME = 1_000
"""Longest id, codec or fingerprint, far above those of Fenceline's workers."""
MOST_SCHEMA_BYTES = 1 << 20
DEEPEST_SCHEMA = 400
"""A sink accepts 64 levels of nested values, each with four or five levels in the schema."""
MOST_COLUMNS = 100
MOST_INPUTS = 100_000
# Larger values are invalid, and their sums would exceed 64 bits.
_MOST = {"size_bytes": 1 << 46, "records": 1 << 40, "checkpoint": 1 << 53}

Step = tuple[TopicReading | None, TopicReading]


class Received(NamedTuple):
    """The content of portions of one topic. schemas: by the fingerprint in `files`."""

    files: tuple[WrittenFile, ...]
    schemas: dict[str, dict[str, Any]]
    strangers: int = 0
    stranger: str = ""
    of_others: int = 0


class Kept(NamedTuple):
    """new: the number of files that were not known before."""

    new: int
    reception: Reception


def receive(pipeline: str, topic: str, portions: Iterable[Portion], *, now: datetime) -> Received:
    """Decode the messages. A message that is no reference is counted and reported, and does not stop reading.

    Thousands of messages take some tenths of a second, too long for the event loop.
    """
    files: list[WrittenFile] = []
    schemas: dict[str, dict[str, Any]] = {}
    strangers, stranger, of_others = 0, "", 0
    for portion in portions:
        for message in portion.messages:
            try:
                reference = _reference(message)
            except _NoReferenceError as error:
                strangers += 1
                stranger = f"{topic}-{portion.partition} at offset {message.offset}: {error}"
                continue
            if reference.pipeline != pipeline:
                of_others += 1
                continue
            files.append(_file(reference, message, topic=topic, partition=portion.partition, now=now))
            schemas.setdefault(reference.fingerprint, reference.schema)
    return Received(tuple(files), schemas, strangers, storable_text(stranger), of_others)


async def keep(uow: UnitOfWork, *, pipeline: str, steps: Sequence[Step], received: Received, now: datetime) -> Kept:
    """Store and count the files, and advance the position, in the caller's transaction.

    Raises ConflictError if another server has advanced the position, or if the pipeline was deleted meanwhile. The
    caller must not commit then.
    """
    # 1. Lock the pipeline, so that servers take turns.
    if not await uow.of(FileReadingStore).begin(pipeline, now=now):
        raise ConflictError(f"the pipeline {pipeline} was deleted while its references were read")
    # 2. Advance the position before counting: references that another server has read are counted already.
    if not await uow.of(FileReadingStore).move(pipeline, steps):
        raise ConflictError(f"another server reads the references of {pipeline} as well")
    # 3. Count new files only: a topic that is read again from its beginning has many known ones.
    added = await uow.of(WrittenFileStore).add(pipeline, received.files)
    if added.new:
        await uow.of(WrittenFileStore).count(pipeline, added.new)
        await uow.of(WrittenFileStore).keep_schemas(pipeline, _schemas(added.new, received.schemas))
    repeated = [(file, place) for file, place in added.repeated if file.place != place]
    reception = Reception(
        strangers=received.strangers,
        stranger=received.stranger,
        of_others=received.of_others,
        repeated=len(repeated),
        repetition=_repetition(*repeated[-1]) if repeated else "",
    )
    # 4. Record the read and its result for the page.
    await uow.of(FileReadingStore).note_look(pipeline, total_of(added.new), reception, now=now)
    if added.new or reception != Reception():
        uow.notify("pipeline", pipeline)
    return Kept(len(added.new), reception)


class _NoReferenceError(Exception):
    """The reason, as the text after "at offset 7: "."""


def _reference(message: TopicMessage) -> FileReference:
    if message.unreadable:
        raise _NoReferenceError(message.unreadable)
    if message.value is None:
        raise _NoReferenceError("the message has no value")
    try:
        reference = file_references.decode(message.value)
    except (ValueError, msgspec.MsgspecError) as error:
        raise _NoReferenceError(str(error)) from error
    _require(0 < len(reference.path) <= LONGEST_PATH, f"its path has {len(reference.path)} characters")
    for name in ("root", "sha256", "codec", "fingerprint", "pipeline", "transactional_id", "attempt"):
        length = len(getattr(reference, name))
        _require(length <= LONGEST_NAME, f"its {name} has {length} characters")
    for name, most in _MOST.items():
        number = getattr(reference, name)
        _require(0 <= number <= most, f"its {name} is {number}")
    _require(len(reference.partition) <= MOST_COLUMNS, f"it has {len(reference.partition)} partition columns")
    _require(len(reference.inputs) <= MOST_INPUTS, f"it has {len(reference.inputs)} input partitions")
    # A deeply nested schema may be readable here, but not where the stack is deeper.
    _require(not _is_deeper(reference.schema, DEEPEST_SCHEMA), "its schema is nested too deeply")
    size = len(msgspec.json.encode(reference.schema))
    _require(size <= MOST_SCHEMA_BYTES, f"its schema has {size} bytes")
    return reference


def _is_deeper(value: object, bound: int) -> bool:
    level = [value]
    for _ in range(bound):
        level = [
            below
            for one in level
            if isinstance(one, (dict, list))
            for below in (
                cast("dict[str, object]", one).values() if isinstance(one, dict) else cast("list[object]", one)
            )
        ]
        if not level:
            return False
    return True


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise _NoReferenceError(otherwise)


def _file(reference: FileReference, message: TopicMessage, *, topic: str, partition: int, now: datetime) -> WrittenFile:
    return storable(
        WrittenFile(
            path=reference.path,
            root=reference.root,
            # `storable` does not process dictionaries.
            partition={storable_text(name): storable_text(value) for name, value in reference.partition.items()},
            size_bytes=reference.size_bytes,
            records=reference.records,
            sha256=reference.sha256,
            codec=reference.codec,
            fingerprint=reference.fingerprint,
            inputs=tuple(
                InputOffsets(
                    topic=one.topic,
                    partition=one.partition,
                    first_offset=one.first_offset,
                    last_offset=one.last_offset,
                )
                for one in reference.inputs
            ),
            transactional_id=reference.transactional_id,
            attempt=reference.attempt,
            checkpoint=reference.checkpoint,
            opened_at=moment_of_ms(reference.opened_at_ms),
            closed_at=moment_of_ms(reference.closed_at_ms),
            uploaded_at=moment_of_ms(reference.uploaded_at_ms),
            referenced_at=moment_of_ms(message.timestamp_ms),
            committed_at=None if message.committed_ms is None else moment_of_ms(message.committed_ms),
            seen_at=now,
            topic=topic,
            topic_partition=partition,
            offset=message.offset,
        )
    )


def _schemas(files: Sequence[WrittenFile], schemas: dict[str, dict[str, Any]]) -> list[FileSchema]:
    by_fingerprint: dict[str, list[WrittenFile]] = {}
    for file in files:
        by_fingerprint.setdefault(file.fingerprint, []).append(file)
    return [
        FileSchema(
            fingerprint=fingerprint,
            # `storable` may have changed an invalid fingerprint: then its schema is not stored.
            schema=schemas.get(fingerprint, {}),
            files=len(of_it),
            first_at=min(file.referenced_at for file in of_it),
            last_at=max(file.referenced_at for file in of_it),
        )
        for fingerprint, of_it in by_fingerprint.items()
    ]


def _repetition(file: WrittenFile, place: str) -> str:
    return f"The newest: {file.path} has references in {file.place} and in {place}."
