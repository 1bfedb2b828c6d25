"""The findings and deletions of the collector."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.products.files.orphans import KnownSince, Margin, OrphanStanding, Stored
from app.products.files.reader.open_upload import OpenUpload


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction before the end of a sink topic, which prevents collection.

    since_ms: time of its first record; transactional_id: from the reference in that record.
    """

    topic: str
    partition: int
    offset: int
    since_ms: int | None
    transactional_id: str | None


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A committed reference whose file is not in the store; `place` as topic-partition@offset."""

    path: str
    place: str


class FileTally(msgspec.Struct, kw_only=True):
    """Number and size of the files with one status."""

    files: int = 0
    size_bytes: int = 0

    def add(self, stored: Stored) -> None:
        self.files += 1
        self.size_bytes += stored.size_bytes


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a scan.

    skew_ms: lead of the store's clock over this host's; None: not known.
    since: older files are not judged.
    orphans: files that may be deleted; empty unless `blocked` is empty.
    open_uploads: multipart uploads that no client will complete; they may be aborted.
    tallies: by status, of all files below the pipeline's folder; zero unless `blocked` is empty.
    missing: committed references, old enough, whose file is missing; `unchecked`: further ones that were not checked.
    references, others: number of this pipeline's references, and of committed records that are no references.
    read_to: the offsets up to which each topic was read.
    """

    pipeline: str
    root: str
    listed_at_ms: int
    skew_ms: int | None
    margin: Margin
    since: KnownSince
    orphans: tuple[Stored, ...]
    open_uploads: tuple[OpenUpload, ...]
    tallies: Mapping[OrphanStanding, FileTally]
    missing: tuple[Missing, ...]
    unchecked: int
    references: int
    others: int
    blocked: tuple[Blocked, ...]
    read_to: Mapping[str, Mapping[int, int]]


class DeletionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a deletion. kept: orphans of the scan that are none any more, each with the reason."""

    deleted: FileTally
    aborted_uploads: int
    kept: tuple[tuple[Stored, str], ...]
