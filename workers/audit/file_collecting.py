"""From references to the ids in their files; a reference without its file in the store is a finding."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, NamedTuple

from confluent_kafka import Message

from app.core.wire import file_contents
from app.core.wire.file_contents import NotAsReferencedError
from app.core.wire.file_references import FileReference
from app.products.audits.result import Example, IdFinding, RecordPlace
from app.products.audits.specification import AuditSpecification
from workers.audit.collecting import SplitCollector, timestamp_of
from workers.audit.ids import id_in_file
from workers.audit.references import ReferenceScope, partition_name, reference_of
from workers.audit.rows import FOUND, sink_bytes
from workers.audit.splits import Split
from workers.audit.stores import FileStores

_AHEAD = 8
"""Files that are fetched at once, each of which is kept in memory up to 4 MB."""


class Wanted(NamedTuple):
    """A reference that is to be followed; `word`: of the rows of its file."""

    reference: FileReference
    message: Message
    word: int
    is_window: bool


class FileCollector(SplitCollector):
    """A Collector whose split holds references. All records of a file have the place of its reference.

    A file counts as often as it is referenced: a consumer of references reads it so often.
    """

    def __init__(
        self,
        specification: AuditSpecification,
        split: Split,
        *,
        buckets: int,
        scope: ReferenceScope,
        stores: FileStores,
    ) -> None:
        """Raises the base's errors; FieldPathError when the id is none that records of files have."""
        super().__init__(specification, split, buckets=buckets)
        self._scope = scope
        self._stores = stores
        self._find = id_in_file(specification.id)
        self._sink = sink_bytes(specification.sink_topics.index(split.topic))

    def collect(self, batches: Iterable[list[Message]]) -> None:
        """Raises AuditReadError when a store cannot be read."""
        for _ in self.following(batches):
            pass

    def following(self, batches: Iterable[list[Message]]) -> Iterator[None]:
        """Collect, with a step for each file that was read. Raises AuditReadError."""
        for wanted, fetching in self._fetched_ahead(self._wanted(batches)):
            try:
                with fetching.result() as content:
                    self._read(wanted, content)
                yield
            except NotAsReferencedError as error:
                # Also where only its input is of the window: lost ids then have their cause beside them.
                if wanted.is_window or self._scope.names_window(wanted.reference):
                    self._dangling(wanted.reference, wanted.message, str(error))

    def _wanted(self, batches: Iterable[list[Message]]) -> Iterator[Wanted]:
        name = partition_name(self._split.topic, self._split.partition)
        for message, word, is_window in self._rows(batches, FOUND):
            try:
                reference = reference_of(message, self._specification)
            except ValueError:
                if is_window:
                    self._unreadable(message, IdFinding.UNREADABLE_OUTPUT)
                continue
            if reference is not None and self._scope.takes(reference, partition=name, offset=message.offset() or 0):
                yield Wanted(reference, message, word, is_window)

    def _fetched_ahead(self, references: Iterable[Wanted]) -> Iterator[tuple[Wanted, Future[BinaryIO]]]:
        """In their order; while one is read the next few are fetched, since small files mostly cost waits."""
        waiting: deque[tuple[Wanted, Future[BinaryIO]]] = deque()
        with ThreadPoolExecutor(_AHEAD, "fetch") as threads:
            try:
                for wanted in references:
                    waiting.append((wanted, threads.submit(self._stores.fetch, wanted.reference)))
                    if len(waiting) > _AHEAD:
                        yield waiting.popleft()
                while waiting:
                    yield waiting.popleft()
            finally:
                for _, fetching in waiting:
                    if not fetching.cancel():
                        fetching.add_done_callback(_close)

    def _read(self, wanted: Wanted, content: BinaryIO) -> None:
        find, sink, add, report = self._find, self._sink, self.pieces.add, self.report
        word, is_window = wanted.word, wanted.is_window
        for record in file_contents.records(wanted.reference, content):
            id_ = find(record)
            report.window_records += is_window
            if id_ is not None:
                add(id_, sink, word)
            elif is_window:
                self._unreadable(wanted.message, IdFinding.UNREADABLE_OUTPUT, file=wanted.reference.path)
        report.files += is_window

    def _dangling(self, reference: FileReference, message: Message, why: str) -> None:
        report, split = self.report, self._split
        report.dangling += 1
        report.dangling_records += reference.records
        if report.dangling > self._specification.bounds.examples:
            return
        place = RecordPlace(
            topic=split.topic,
            partition=split.partition,
            offset=message.offset() or 0,
            timestamp_ms=timestamp_of(message),
            file=reference.path,
        )
        report.examples.append(
            Example(
                finding=IdFinding.DANGLING,
                id=None,
                topic=split.topic,
                expected=reference.records,
                found=0,
                outputs=(place,),
                why=why,
            )
        )


def _close(fetching: Future[BinaryIO]) -> None:
    if fetching.exception() is None:
        fetching.result().close()
