"""The collector: find orphans, and delete them on request."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from app.core.wire import file_references
from app.products.files.orphans import KnownSince, LogBegin, Margin, OrphanStanding, Stored, form_of, judge, known_since
from app.products.files.reader.errors import ReferencesUnreadableError
from app.products.files.reader.findings import Blocked, DeletionOutcome, FileTally, Findings, Missing
from app.products.files.reader.listed import Listed
from app.products.files.reader.open_upload import OpenUpload
from app.products.files.reader.references import ReferenceReading, ReferenceTopic, references_between
from app.products.files.reader.store import FileStore
from app.products.files.reader.topic import Offsets, ReferenceRecord

BATCH = 500
"""Files that are deleted between two reads of new references."""

_SAME_MS = 1_000
"""Tolerance of times: MinIO and Swift list milliseconds, but report one object in seconds, rounded down or up."""

GONE = "it is gone"
"""Reason for an orphan that another client has deleted."""


class SinkTopic(ReferenceTopic, Protocol):
    """A sink topic for the collector (app/products/files/reader/topic.py)."""

    def ends(self) -> Offsets: ...
    def record_at(self, partition: int, offset: int) -> ReferenceRecord | None: ...


class OrphanCollector:
    """Find the orphans of one pipeline, and delete them.

    look:
      1. read the clock, and list the store       ages count from this time; later files are ignored
      2. read the end of each sink topic          with read_uncommitted, so decided records without marker are before it
      3. wait until all before it is decided      a commit may be decided before its marker is written; while one
                                                  transaction before the end is open, nothing is judged
      4. read the committed references up to it
      5. judge                                    app/products/files/orphans.py: age, and the references in the topic

    Proof that no file with a reference is an orphan: take a file older than the margin in 1. The transaction that could
    name it has ended before 1, or will abort: its task has left the group, or its transaction has timed out. If it was
    committed, its references are before the end of 2, since they are acknowledged before the commit request. So they
    are read in 4. An age counted after 2 would be wrong: the file could have a reference after that end.

    delete: read the new references before each batch, and check each file again.

    Args:
        topics: every topic that has had references of this pipeline.
        created_ms: of the pipeline.
        is_first_incarnation: no sink topic was ever recreated.
        patience_s: longest wait in step 3.
        now_ms, clock, pause: clocks of this host, and a function to wait.
        step: called with the name of each step before it; tests inject events there.
    """

    def __init__(
        self,
        store: FileStore,
        topics: Sequence[SinkTopic],
        *,
        pipeline: str,
        margin: Margin,
        created_ms: int,
        is_first_incarnation: bool = False,
        patience_s: float = 60.0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not topics:
            raise ValueError("without a sink topic every file would be an orphan")
        self._store = store
        self._topics = topics
        self._pipeline = pipeline
        self._form = form_of(pipeline)
        self._margin = margin
        self._created_ms = created_ms
        self._is_first_incarnation = is_first_incarnation
        self._patience_s = patience_s
        self._now_ms = now_ms
        self._clock = clock
        self._pause = pause
        self._step = step

    def look(self, told: Callable[[str], None] = lambda _: None) -> Findings:
        """Scan. Nothing is changed.

        Args:
            `told`: receives the progress as a text.

        Raises:
            StoreUnavailableError, ReferencesUnreadableError: nothing may be collected.
        """
        self._step("clock")
        store_ms = self._store.now_ms()
        our_ms = self._now_ms()
        listed_at_ms = our_ms if store_ms is None else store_ms
        skew_ms = None if store_ms is None else store_ms - our_ms
        self._step("list")
        told("listing")
        unreferenced = {stored.path: stored for stored in self._store.list(self._pipeline)}
        open_uploads = tuple(
            upload
            for upload in self._store.open_uploads(self._pipeline)
            if self._form.fullmatch(upload.path) and upload.begun_ms <= listed_at_ms - self._margin.total_ms
        )
        ends: dict[str, Offsets] = {}
        for topic in self._topics:
            self._step(f"end of {topic.name}")
            ends[topic.name] = topic.ends()
        blocked: list[Blocked] = []
        for topic in self._topics:
            self._step(f"stable end of {topic.name}")
            told(f"{len(unreferenced):,} files; waiting for open transactions in {topic.name}")
            blocked += self._wait_until_decided(topic, ends[topic.name])
        listed = Listed(unreferenced, oldest_ms=our_ms - self._margin.total_ms)
        orphans: list[Stored] = []
        since = KnownSince(at_ms=None, why="a transaction is open")
        if not blocked:
            for topic in self._topics:
                self._step(f"references of {topic.name}")
                self._read(topic, ends[topic.name], listed, told)
            since = self._since(listed.begins, skew_ms)
            orphans = self._judge(listed, since, listed_at_ms)
        return Findings(
            pipeline=self._pipeline,
            root=self._store.root,
            listed_at_ms=listed_at_ms,
            skew_ms=skew_ms,
            margin=self._margin,
            since=since,
            orphans=tuple(orphans),
            open_uploads=() if blocked else open_uploads,
            tallies=listed.tallies,
            missing=self._missing(listed.suspects),
            unchecked=listed.unchecked,
            references=listed.reading.references,
            others=listed.reading.others,
            blocked=tuple(blocked),
            read_to=ends,
        )

    def delete(self, findings: Findings, *, told: Callable[[Stored], None] = lambda _: None) -> DeletionOutcome:
        """Delete the orphans of a scan, and abort the multipart uploads.

        Raises:
            StoreUnavailableError, ReferencesUnreadableError: earlier files are deleted, later ones are not.
            ReferencesUnreadableError: also if one of them has a new reference. Then the margin is too small, and no
                more is deleted.
        """
        read_to = {name: dict(ends) for name, ends in findings.read_to.items()}
        deleted, kept = FileTally(), list[tuple[Stored, str]]()
        left = {stored.path: stored for stored in findings.orphans}
        for batch in _batches(findings.orphans, BATCH):
            self._step("references since")
            # Check all remaining files, since these references are not read again for later batches.
            self._check_unreferenced(left, read_to)
            for stored in batch:
                del left[stored.path]
                self._step("look again")
                why = self._changed(stored) or self._delete(stored)
                if why is not None:
                    kept.append((stored, why))
                    continue
                deleted.add(stored)
                told(stored)
        aborted = sum(self._abort(upload) for upload in findings.open_uploads)
        return DeletionOutcome(deleted=deleted, aborted_uploads=aborted, kept=tuple(kept))

    def _wait_until_decided(self, topic: SinkTopic, ends: Offsets) -> Iterator[Blocked]:
        deadline = self._clock() + self._patience_s
        while True:
            stable = topic.last_stable()
            behind = {partition: stable[partition] for partition in ends if stable[partition] < ends[partition]}
            if not behind:
                return
            if self._clock() >= deadline:
                break
            self._pause(0.2)
        for partition, offset in sorted(behind.items()):
            first = topic.record_at(partition, offset)
            yield Blocked(
                topic=topic.name,
                partition=partition,
                offset=offset,
                since_ms=None if first is None else first.timestamp_ms,
                transactional_id=None if first is None else _writer_of(first),
            )

    def _read(self, topic: SinkTopic, ends: Offsets, listed: Listed, told: Callable[[str], None]) -> None:
        def heard(reading: ReferenceReading) -> None:
            told(f"{reading.records:,} records of {topic.name} read")

        begins = topic.begins()
        start = {partition: min(begins[partition], end) for partition, end in ends.items()}
        firsts: dict[int, int] = {}
        listed.reading.topic = topic.name
        for located in references_between(topic, start, ends, reading=listed.reading, heard=heard, named=listed.keep):
            at_ms = max(located.reference.uploaded_at_ms, located.timestamp_ms or 0)
            firsts.setdefault(located.partition, at_ms)
            # A path with a reference is kept, for any pipeline and root.
            is_ours = located.reference.pipeline == self._pipeline and located.reference.root == self._store.root
            listed.add(located, is_ours=is_ours)
        _require_readable(listed.reading)
        listed.begins += [
            LogBegin(
                topic=topic.name,
                partition=partition,
                start_offset=begins[partition],
                first_reference_ms=firsts.get(partition),
            )
            for partition in sorted(ends)
        ]

    def _since(self, begins: Sequence[LogBegin], skew_ms: int | None) -> KnownSince:
        if skew_ms is not None and abs(skew_ms) > self._margin.clocks_ms:
            return KnownSince(at_ms=None, why=f"the store's clock differs by {skew_ms / 1000:g} s from this host's")
        return known_since(
            begins, created_ms=self._created_ms, margin=self._margin, is_first_incarnation=self._is_first_incarnation
        )

    def _judge(self, listed: Listed, since: KnownSince, at_ms: int) -> list[Stored]:
        orphans: list[Stored] = []
        for stored in listed.unreferenced.values():
            standing = judge(stored, form=self._form, now_ms=at_ms, margin=self._margin, since=since)
            listed.tallies[standing].add(stored)
            if standing is OrphanStanding.ORPHAN:
                orphans.append(stored)
        return orphans

    def _missing(self, suspects: Sequence[Missing]) -> tuple[Missing, ...]:
        """Return the missing files; a suspect with a second reference exists."""
        found: list[Missing] = []
        for suspect in suspects:
            try:
                self._store.stat(suspect.path)
            except FileNotFoundError:
                found.append(suspect)
        return tuple(found)

    def _check_unreferenced(self, left: Mapping[str, Stored], read_to: dict[str, dict[int, int]]) -> None:
        def refuse(path: str, place: str) -> None:
            if path in left:
                raise ReferencesUnreadableError(
                    f"{path} has a new reference at {place}, more than {self._margin.total_ms / 1000:g} s after its "
                    "upload: the margin is too small. No more is deleted."
                )

        for topic in self._topics:
            start, stable = read_to[topic.name], topic.last_stable()
            end = {partition: max(offset, start.get(partition, 0)) for partition, offset in stable.items()}
            start = {partition: start.get(partition, 0) for partition in end}
            reading = ReferenceReading(topic=topic.name)
            for located in references_between(topic, start, end, reading=reading, named=refuse):
                refuse(located.reference.path, located.place)
            _require_readable(reading)
            read_to[topic.name] = dict(end)

    def _changed(self, stored: Stored) -> str | None:
        try:
            found = self._store.stat(stored.path)
        except FileNotFoundError:
            return GONE
        is_same = found.size_bytes == stored.size_bytes and abs(found.modified_ms - stored.modified_ms) <= _SAME_MS
        return None if is_same else "it has changed since it was listed"

    def _delete(self, stored: Stored) -> str | None:
        self._step("delete")
        try:
            self._store.delete(stored.path)
        except FileNotFoundError:
            return GONE
        return None

    def _abort(self, upload: OpenUpload) -> bool:
        try:
            self._store.abort_upload(upload)
        except FileNotFoundError:
            # Its client has ended it meanwhile.
            return False
        return True


def _require_readable(reading: ReferenceReading) -> None:
    """Raise ReferencesUnreadableError for an unreadable record that may name files, such as one of a newer version."""
    if reading.doubtful:
        raise ReferencesUnreadableError(
            f"the reference at {reading.doubtful} is of an unknown version: its file would appear as an orphan, so "
            "nothing is judged. Use the version of Fenceline that wrote it"
        )


def _writer_of(record: ReferenceRecord) -> str | None:
    if record.value is None:
        return None
    try:
        return file_references.decode(record.value).transactional_id
    except ValueError:
        return None


def _batches(items: Iterable[Stored], size: int) -> Iterator[list[Stored]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
