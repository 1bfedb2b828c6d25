"""A store and a sink topic in memory, whose every step a test can put between those of the collector."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from app.core.wire import file_references
from app.core.wire.file_references import FileReference, InputRange
from app.products.files.orphans import Stored
from app.products.files.reader.open_upload import OpenUpload
from app.products.files.reader.topic import Offsets, ReferenceRecord

ROOT = "memory://lake"


def reference_to(path: str, *, pipeline: str = "flights", root: str = ROOT, uploaded_at_ms: int = 0) -> FileReference:
    return FileReference(
        path=path,
        root=root,
        size_bytes=10,
        records=1,
        sha256="0" * 64,
        codec="null",
        partition={"day": "1"},
        inputs=(InputRange(topic="in", partition=0, first_offset=0, last_offset=0),),
        schema={"type": "record", "name": "r", "fields": []},
        fingerprint="0" * 64,
        pipeline=pipeline,
        transactional_id="fl.t.flights.0.0",
        attempt="1.0",
        checkpoint=1,
        opened_at_ms=uploaded_at_ms,
        closed_at_ms=uploaded_at_ms,
        uploaded_at_ms=uploaded_at_ms,
    )


class World:
    """One clock for all."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000


class MemoryStore:
    """The port `FileStore`."""

    def __init__(self, world: World, root: str = ROOT) -> None:
        self.root = root
        self.files: dict[str, Stored] = {}
        self.uploads: list[OpenUpload] = []
        self.deleted: list[str] = []
        self.skew_ms: int | None = 0
        self._world = world

    def put(self, path: str, *, size_bytes: int = 10) -> None:
        self.files[path] = Stored(path=path, size_bytes=size_bytes, modified_ms=self._world.now_ms)

    def now_ms(self) -> int | None:
        return None if self.skew_ms is None else self._world.now_ms + self.skew_ms

    def list(self, folder: str) -> Iterator[Stored]:
        yield from [stored for path, stored in self.files.items() if path.startswith(f"{folder}/")]

    def stat(self, path: str) -> Stored:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(bytes(self.stat(path).size_bytes))

    def delete(self, path: str) -> None:
        del self.files[path]
        self.deleted.append(path)

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]:
        yield from [one for one in self.uploads if one.path.startswith(f"{folder}/")]

    def abort_upload(self, upload: OpenUpload) -> None:
        if upload not in self.uploads:
            raise FileNotFoundError(upload.path)
        self.uploads.remove(upload)


class _Entry(msgspec.Struct):
    """`transaction` is None for a marker."""

    transaction: int | None
    timestamp_ms: int
    value: bytes | None


class MemoryTopic:
    """The port `SinkTopic`, of one partition. A transaction is decided before its marker is written."""

    def __init__(self, world: World, name: str = "files") -> None:
        self.name = name
        self.begin = 0
        self._world = world
        self._log: list[_Entry] = []
        self._marked: dict[int, bool] = {}

    def write(self, transaction: int, value: FileReference | bytes | None) -> None:
        encoded = file_references.encode(value) if isinstance(value, FileReference) else value
        self._log.append(_Entry(transaction=transaction, timestamp_ms=self._world.now_ms, value=encoded))

    def mark(self, transaction: int, *, is_commit: bool = True) -> None:
        self._marked[transaction] = is_commit
        self._log.append(_Entry(transaction=None, timestamp_ms=self._world.now_ms, value=None))

    def delete_records(self, before: int | None = None) -> None:
        self.begin = len(self._log) if before is None else before

    def begins(self) -> Offsets:
        return {0: self.begin}

    def ends(self) -> Offsets:
        return {0: len(self._log)}

    def last_stable(self) -> Offsets:
        open_at = [
            offset
            for offset, entry in enumerate(self._log)
            if entry.transaction is not None and entry.transaction not in self._marked
        ]
        return {0: min(open_at, default=len(self._log))}

    def at_time(self, at_ms: int) -> Offsets:
        young = [offset for offset, entry in enumerate(self._log) if entry.timestamp_ms >= at_ms]
        return {0: max(self.begin, min(young, default=self.last_stable()[0]))}

    def committed(self, start: Offsets, end: Offsets) -> Iterator[ReferenceRecord]:
        for offset in range(max(start[0], self.begin), end[0]):
            entry = self._log[offset]
            if entry.transaction is not None and self._marked.get(entry.transaction, False):
                yield self._record(offset)

    def record_at(self, partition: int, offset: int) -> ReferenceRecord | None:
        return self._record(offset) if offset < len(self._log) else None

    def _record(self, offset: int) -> ReferenceRecord:
        entry = self._log[offset]
        return ReferenceRecord(partition=0, offset=offset, timestamp_ms=entry.timestamp_ms, value=entry.value)
