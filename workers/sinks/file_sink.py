"""From outputs to verified files: the work between two checkpoints of a file pipeline."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple, Protocol

from app.core.avro_schemas.shape import NOTHING, Shape
from app.core.pipelines.pipeline import FileSink as Settings
from app.core.wire.file_references import encode
from workers.native.filing import FullPart, HeldOutputs, NativeParts
from workers.native.library import NativeLibrary
from workers.sinks import avro_file
from workers.sinks.avro_file import AvroFileError
from workers.sinks.parts import Buffers, Part, Parts, Source
from workers.sinks.record_schemas import record_schemas
from workers.sinks.spool import Spool
from workers.sinks.upload_pace import Load, UploadPace
from workers.sinks.uploads import ToUpload, Uploaded, UploadError
from workers.sinks.value_columns import ValueColumns
from workers.sinks.verification import Verification
from workers.sinks.written_files import StoredFile, WriterIdentity, WrittenFile, reference_of

_TOGETHER = 64
"""Files that are written, then uploaded, then removed: a checkpoint's files are not all on the disk at once."""
_BETWEEN_S = 0.5
_RANDOM_BYTES = 16
_MEGABYTE = 1024 * 1024
_MOST_SPOOLED = 4 * 1024 * _MEGABYTE


class SinkError(Exception):
    """The files of this checkpoint cannot be stored; it must be aborted. The message has the reason."""


class SinkStore(Protocol):
    """The destination of files; see workers.sinks.store."""

    def put_all(self, files: Sequence[ToUpload], *, within_s: float, between: Callable[[], None]) -> list[Uploaded]: ...


class Dated(NamedTuple):
    """An output: JSON, and the time of the Kafka record if it has one."""

    value: bytes
    timestamp_ms: int | None


class FileSinkWriter:
    """The files of one checkpoint after another.

      open      a checkpoint begins; it has a number
      add       a record's outputs join the parts of their partition values: shapes are merged, bytes held or spooled
      finish    every part becomes a file, every file is uploaded and verified
      references   the records for the topic, in the transaction that begins only now
      forget    the checkpoint is over, committed or not. An uploaded file without a reference is an orphan

    A path has 128 random bits and is never used again. So no file can be named before its reference, and a repeated
    checkpoint leaves earlier files untouched.

    Args:
        folder: for finished files on their way, and the spool.
        buffers: shared by all sinks of a task.
        numbers: of checkpoints, shared by the sinks that write under one transactional id, one after another.
        pace: shared likewise.
        native: encodes values by C; None: by Python.
        holds_natively: `native` also holds the values, and files records that it holds by `add_held`.
        now_s: seconds that also pass while the machine sleeps.
    """

    def __init__(
        self,
        settings: Settings,
        identity: WriterIdentity,
        *,
        store: SinkStore,
        folder: Path,
        buffers: Buffers,
        numbers: Iterator[int] | None = None,
        pace: UploadPace | None = None,
        native: NativeLibrary | None = None,
        holds_natively: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._store = store
        self._folder = folder
        self._clock = clock
        self._now_s = now_s
        self._columns = ValueColumns(settings)
        self._schemas = record_schemas(settings, native)
        self.verification = (
            Verification(settings.root, settings.id_field) if settings.verifies and settings.id_field else None
        )
        self._spool = Spool(folder)
        self._buffers = buffers
        self._native = native
        self._most_bytes = settings.max_file_mb * _MEGABYTE
        self._parts = (
            Parts(self._spool, buffers)
            if native is None or not holds_natively
            else NativeParts(
                native,
                self._spool,
                buffers,
                settings=settings,
                check_of=self._schemas.checked_by_c,
                most_bytes=self._most_bytes,
            )
        )
        self._numbers = count(1) if numbers is None else numbers
        self._number = 0
        self._on_disk: set[Path] = set()
        self._written: list[WrittenFile] = []
        self._stored: list[StoredFile] = []
        self._first_upload_s: float | None = None
        self._pace = UploadPace(settings.upload_timeout_ms / 1000) if pace is None else pace

    @property
    def checkpoint(self) -> int:
        """The number of the open checkpoint, else of the last one."""
        return self._number

    @property
    def added(self) -> tuple[int, int]:
        """The records of the open checkpoint, and the bytes of their values."""
        return self._parts.records, self._parts.size_bytes

    @property
    def takes_held(self) -> bool:
        """True if `add_held` may be called."""
        return isinstance(self._parts, NativeParts)

    @property
    def is_full(self) -> bool:
        """True if the checkpoint should end before its time: with more, its content could not be uploaded in time.

        Also if the spool is full, or all sinks of the task hold as many files as memory allows.
        """
        return (
            self._spool.size > _MOST_SPOOLED
            or self._pace.is_enough(self._load())
            or self._buffers.is_crowded_by(self._parts)
        )

    def open(self) -> None:
        self._number = next(self._numbers)

    def add(self, outputs: Sequence[Dated], *, source: Source, offset: int) -> None:
        """Add all outputs of one record to the checkpoint, or none.

        Raises:
            BadValueError: one of them cannot be in a file.
            SinkError: the local disk is full.
        """
        try:
            if len(outputs) == 1:
                # The usual case: the following steps can then not fail half way.
                (value, timestamp_ms) = outputs[0]
                values = self._columns.values(value, timestamp_ms)
                part = self._parts.find(values)
                shape = self._schemas.add(NOTHING if part is None else part.shape, value)
                self._hold(values, value, shape, source, offset)
                return
            shapes: dict[tuple[str, ...], Shape] = {}
            staged: list[tuple[tuple[str, ...], bytes]] = []
            for value, timestamp_ms in outputs:
                values = self._columns.values(value, timestamp_ms)
                part = self._parts.find(values)
                known = shapes.get(values, NOTHING if part is None else part.shape)
                shapes[values] = self._schemas.add(known, value)
                staged.append((values, value))
            for values, value in staged:
                self._hold(values, value, shapes[values], source, offset)
        except (OSError, AvroFileError) as error:
            raise _local(error) from error

    def add_held(self, outputs: HeldOutputs) -> Iterator[int]:
        """Add records that C holds; yield the index of each that C leaves to the caller, who adds it before the next.

        Raises SinkError as `add`.
        """
        if not isinstance(self._parts, NativeParts):
            raise TypeError("the parts of this sink are not C's; this is a bug in the loop")
        try:
            for one in self._parts.file(outputs):
                if isinstance(one, FullPart):
                    self._end(one.values)
                else:
                    yield one.position
        except (OSError, AvroFileError) as error:
            raise _local(error) from error

    def _hold(self, values: tuple[str, ...], value: bytes, shape: Shape, source: Source, offset: int) -> None:
        part = self._parts.get(values)
        part.shape = shape
        part.cover(source, offset, offset)
        self._parts.hold(part, value)
        if part.size_bytes >= self._most_bytes:
            self._end(values)

    def _end(self, values: tuple[str, ...]) -> None:
        """Write the file of a part that is large enough."""
        self._written.append(self._write(values, self._parts.take(values), closed_at_ms=_now_ms()))

    def finish(self, *, bound_s: float, between: Callable[[], None]) -> None:
        """Write, upload and verify every file.

        Args:
            bound_s: how long that may take; a file that is being written by then is still completed.
            between: called twice a second, and after each file.

        Raises:
            SinkError: it failed, or was not done in time.
        """
        began_at, load = self._clock(), self._load()
        deadline = began_at + bound_s
        # From here on none of them gets another record, though the last may be written and uploaded much later.
        files = self._all_written(_now_ms())
        try:
            # The end of this block waits for the running uploads, which end by the deadline.
            with ThreadPoolExecutor(1, thread_name_prefix="uploads") as uploads:
                uploading: Future[list[StoredFile]] | None = None
                while True:
                    # Written while earlier ones are uploaded.
                    chunk: list[WrittenFile] = []
                    between()
                    for file in islice(files, _TOGETHER):
                        chunk.append(file)
                        between()
                        if self._clock() > deadline:
                            break
                    if uploading is not None:
                        self._stored += _result(uploading, between)
                    if self._clock() > deadline:
                        self._was_late(load)
                        raise SinkError(
                            f"the files of this checkpoint were not uploaded within {bound_s:.1f} s "
                            f"({len(self._stored)} were uploaded late). None is referenced; the records are read again"
                        )
                    if not chunk:
                        self._pace.took(load, self._clock() - began_at)
                        return
                    uploading = uploads.submit(self._upload, chunk, deadline)
        except UploadError as error:
            if self._clock() >= deadline:
                self._was_late(load)
            raise SinkError(str(error)) from error
        except (OSError, AvroFileError) as error:
            raise _local(error) from error

    def require_fresh(self) -> None:
        """Check that the oldest upload may be referenced: the collector takes older ones for orphans.

        Raises SinkError when it is too old.
        """
        longest_s = (self._settings.rotate_ms + self._settings.upload_timeout_ms) / 1000
        if self._first_upload_s is not None and self._now_s() - self._first_upload_s > longest_s:
            raise SinkError(
                f"the checkpoint's first file was uploaded more than {longest_s:.0f} s ago and may be collected. "
                "The records are read again"
            )

    def references(self) -> Iterator[tuple[str, bytes]]:
        """Key and value of each reference."""
        for stored in self._stored:
            file = stored.file
            schema = self._schemas.schema(file.part.shape)
            columns = dict(zip(self._columns.names, file.values, strict=True))
            reference = reference_of(
                stored, self._identity, self._settings, schema, columns=columns, checkpoint=self._number
            )
            yield file.path, encode(reference)

    def committed(self) -> None:
        """Record the commit of the references. From here on verification is due, if it is configured."""
        if self.verification is not None:
            self.verification.committed(self._number, [stored.file.to_upload() for stored in self._stored])

    def forget(self) -> None:
        """Discard the checkpoint's files and parts; raises nothing."""
        # Files too that were written and not uploaded.
        self._remove(list(self._on_disk))
        self._written.clear()
        self._stored.clear()
        self._first_upload_s = None
        self._parts.clear()
        if self.verification is not None:
            self.verification.forget()

    def _load(self) -> Load:
        """The present content of the checkpoint, in bytes of JSON."""
        return Load(len(self._parts) + len(self._written), self._parts.size_bytes, self._parts.records)

    def _was_late(self, load: Load) -> None:
        uploaded = sum(stored.file.part.size_bytes for stored in self._stored)
        self._pace.was_late(load, uploaded=Load(len(self._stored), uploaded))

    def _all_written(self, closed_at_ms: int) -> Iterator[WrittenFile]:
        while self._written:
            yield self._written.pop()
        for values, part in self._parts.take_all():
            yield self._write(values, part, closed_at_ms=closed_at_ms)

    def _write(self, values: tuple[str, ...], part: Part, *, closed_at_ms: int) -> WrittenFile:
        local = self._folder / f"{secrets.token_hex(8)}.avro"
        self._on_disk.add(local)
        schema = self._schemas.schema(part.shape)
        # Files that are lost with this host are read again: they need not reach its disk.
        written = avro_file.write(
            self._parts.values(part),
            schema.schema,
            codec=self._settings.codec,
            path=local,
            syncs=False,
            native=self._native,
        )
        part.release()
        name = f"{secrets.token_hex(_RANDOM_BYTES)}.avro"
        folder = self._columns.folder(values)
        path = "/".join(piece for piece in (self._identity.pipeline, folder, name) if piece)
        return WrittenFile(values, part, written, path, closed_at_ms, local)

    def _upload(self, files: list[WrittenFile], deadline: float) -> list[StoredFile]:
        if self._first_upload_s is None:
            self._first_upload_s = self._now_s()
        try:
            found = self._store.put_all(
                [file.to_upload() for file in files],
                within_s=max(0.0, deadline - self._clock()),
                between=_nothing,
            )
        finally:
            self._remove([file.local for file in files])
        uploaded = {one.path: one.uploaded_at_ms for one in found}
        return [StoredFile(file, uploaded[file.path]) for file in files]

    def _remove(self, files: Sequence[Path]) -> None:
        for file in files:
            file.unlink(missing_ok=True)
            self._on_disk.discard(file)


def _result(uploading: Future[list[StoredFile]], between: Callable[[], None]) -> list[StoredFile]:
    while True:
        try:
            return uploading.result(_BETWEEN_S)
        except TimeoutError:
            between()


def _nothing() -> None:
    """Report nothing: the thread that uploads has no caller."""


def _now_ms() -> int:
    return int(time.time() * 1000)


def _local(error: OSError | AvroFileError) -> SinkError:
    return SinkError(f"the local spool cannot be written: {error}")
