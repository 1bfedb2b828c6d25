"""The shared parts of an attempt's file sinks: the store, the local folder, the bytes that may be held in memory."""

from __future__ import annotations

import logging
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from weakref import WeakSet, ref

import msgspec

from app.core.pipelines.pipeline import FileSink as Settings
from workers.loop.client_config import Batches
from workers.loop.control import TaskSpecification
from workers.loop.errors import PipelineStopError
from workers.loop.producing.file_producer import FileProducer
from workers.loop.producing.producers import TaskProducer
from workers.loop.settling import MakeProducer
from workers.native.library import NativeLibrary, native_library
from workers.native.taking import why_objects
from workers.sinks.file_sink import FileSinkWriter, WriterIdentity
from workers.sinks.parts import Buffers
from workers.sinks.spool_folder import SpoolFolder
from workers.sinks.store import UploadStore
from workers.sinks.upload_pace import UploadPace
from workers.sinks.verification import MOST_DUE, DifferenceError, UnreadError, Verification

log = logging.getLogger(__name__)
_VERIFIES_FOR_S = 5.0
"""The limit between two polls, for all producers of a task together."""


class TaskFiles:
    """Makes the file sinks of an attempt, and closes them with it."""

    def __init__(self, specification: TaskSpecification, settings: Settings) -> None:
        """Raises OSError when there is no place for the spool."""
        self._specification = specification
        self._settings = settings
        # The numbers of an attempt come again with another run.
        self._attempt = secrets.token_hex(8)
        self._folder = SpoolFolder()
        self._buffers = Buffers()
        self._store = UploadStore(settings.root)
        found = native_library()
        self._native = found if specification.native_records and isinstance(found, NativeLibrary) else None
        definition = specification.definition
        self._holds_natively = why_objects(definition, may_be_native=specification.native_records) is None
        # Weakly: they come and go with their producers.
        self._sinks: WeakSet[FileSinkWriter] = WeakSet()
        self._paces: WeakSet[UploadPace] = WeakSet()
        # Strongly, unlike the sinks: the last checkpoint of a partition is committed as it is released.
        self._verifications: list[tuple[ref[FileSinkWriter], Verification]] = []

    @property
    def rotate_ms(self) -> int:
        return self._settings.rotate_ms

    @property
    def upload_timeout_s(self) -> float:
        return self._settings.upload_timeout_ms / 1000

    def most_polled(self) -> int:
        """The most records to ask for at once, so that the files of a batch can be uploaded in time."""
        return int(min([sys.maxsize, *(pace.most_records for pace in self._paces)]))

    def into_files(self, make: MakeProducer, *, transactional_id: str | None) -> MakeProducer:
        """Producers as `make` makes them, each behind a file sink of its own.

        One sink for all does not work: a call of a discarded producer may still be in its sink after it was abandoned.
        The checkpoints of one id are numbered through all of them, and the pace of the store is learned once.
        """
        identity = WriterIdentity(
            pipeline=self._specification.pipeline,
            transactional_id=transactional_id or self._specification.transactional_id or "",
            attempt=self._attempt,
        )
        numbers, pace = count(1), UploadPace(self.upload_timeout_s)
        self._paces.add(pace)

        def made(batches: Batches) -> TaskProducer:
            return FileProducer(
                make(batches),
                self._sink(identity, numbers, pace),
                topic=self._specification.definition.sink_topic,
                upload_timeout_s=self.upload_timeout_s,
                transaction_timeout_s=self._specification.definition.transaction_timeout_ms / 1000,
            )

        return made

    def _sink(self, identity: WriterIdentity, numbers: Iterator[int], pace: UploadPace) -> FileSinkWriter:
        sink = FileSinkWriter(
            self._settings,
            identity,
            store=self._store,
            folder=self._folder.path,
            buffers=self._buffers,
            numbers=numbers,
            pace=pace,
            native=self._native,
            holds_natively=self._holds_natively,
        )
        self._sinks.add(sink)
        if sink.verification is not None:
            self._verifications.append((ref(sink), sink.verification))
        return sink

    def verify(self, between: Callable[[], None], is_last: bool) -> None:
        """Read the files again that were committed since the last time, if the pipeline requires that.

        It takes a few seconds at a time, so that the group keeps the member; with `is_last`, until the end.

        A store that does not return them is asked again; the pipeline continues meanwhile, for 100 checkpoints.

        Raises:
            PipelineStopError: they differ from their records; both sets of ids are in the log. Or the store has not
                returned them for so long.
        """
        until = math.inf if is_last else time.monotonic() + _VERIFIES_FOR_S
        for _sink, verification in self._verifications:
            try:
                verification.check(between, within_s=max(0.0, until - time.monotonic()))
            except DifferenceError as error:
                sets = {"missing": sorted(error.lost.elements()), "too_many": sorted(error.unexpected.elements())}
                log.error("%s; all ids: %s", error, msgspec.json.encode(sets).decode())  # noqa: TRY400
                raise PipelineStopError(str(error)) from error
            except UnreadError as error:
                if verification.due > MOST_DUE:
                    raise PipelineStopError(f"{verification.due} checkpoints are not compared: {error}") from error
                log.warning("%s", error)
        self._verifications = [one for one in self._verifications if one[0]() is not None or one[1].due]

    def close(self) -> None:
        for sink in self._sinks:
            sink.forget()
        if due := sum(verification.due for _sink, verification in self._verifications):
            log.warning("%d checkpoints are committed, and were never compared", due)
        self._folder.close()
