"""The collector on a file pipeline that has come to rest, an hour of its own later."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from app.products.files.orphans import OrphanStanding, Stored, margin_of
from app.products.files.reader.collecting import OrphanCollector
from app.products.files.reader.findings import Findings
from app.products.files.reader.open_upload import OpenUpload
from app.products.files.reader.store import FileStore
from app.products.files.reader.topic import Topic
from tests.support.file_pipelines import FileAudit, assert_whole
from tests.support.lakes import Lake
from tests.support.pipelines import TestPipeline

_TRANSACTION_MAX_MS = 900_000
"""As the brokers have it by default."""


class _Later:
    """A store whose clock is ahead, so that everything in it is old."""

    def __init__(self, store: FileStore, *, by_ms: int) -> None:
        self._store = store
        self._by_ms = by_ms

    @property
    def root(self) -> str:
        return self._store.root

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._by_ms

    def list(self, folder: str) -> Iterator[Stored]:
        return self._store.list(folder)

    def stat(self, path: str) -> Stored:
        return self._store.stat(path)

    def open(self, path: str) -> BinaryIO:
        return self._store.open(path)

    def delete(self, path: str) -> None:
        self._store.delete(path)

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]:
        return self._store.open_uploads(folder)

    def abort_upload(self, upload: OpenUpload) -> None:
        self._store.abort_upload(upload)


@contextmanager
def _collector(pipeline: TestPipeline, lake: Lake) -> Generator[OrphanCollector]:
    """With its own margins, when all that is there is older than these."""
    margin = margin_of([pipeline.definition], transaction_max_timeout_ms=_TRANSACTION_MAX_MS)
    store = _Later(lake.store(), by_ms=margin.total_ms + 60_000)
    topic = Topic(pipeline.sink, {"bootstrap.servers": pipeline.bootstrap_servers})
    try:
        yield OrphanCollector(
            store,
            [topic],
            pipeline=pipeline.definition.group_id,
            margin=margin,
            created_ms=0,
            is_first_incarnation=True,
            now_ms=store.now_ms,
        )
    finally:
        topic.close()


def look(pipeline: TestPipeline, lake: Lake) -> Findings:
    """The collector's findings; nothing is deleted."""
    with _collector(pipeline, lake) as collector:
        return collector.look()


def assert_whole_and_collected(pipeline: TestPipeline, lake: Lake) -> FileAudit:
    """As `assert_whole`; and exactly the unreferenced files are orphans to the collector, which deletes only those.
    The result is from before it has deleted anything."""
    before = assert_whole(pipeline, lake)
    with _collector(pipeline, lake) as collector:
        findings = collector.look()
        assert not findings.blocked, findings.blocked
        assert not findings.missing, findings.missing
        assert findings.tallies[OrphanStanding.REFERENCED].files == len(before.references)
        assert {stored.path for stored in findings.orphans} == set(before.orphans), str(before)
        outcome = collector.delete(findings)
        assert outcome.deleted.files == len(before.orphans), outcome
    after = assert_whole(pipeline, lake)
    assert after.orphans == ()
    assert after.references == before.references
    return before
