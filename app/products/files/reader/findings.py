"""What the collector found, and what it did."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.products.files.orphans import KnownSince, Margin, Standing, Stored
from app.products.files.reader.open_upload import OpenUpload


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is not decided, before the end of a sink topic: nothing may be collected while it is there.

    since_ms: when its first record was written; transactional_id: whose it is, by the reference that this record is.
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


class Tally(msgspec.Struct, kw_only=True):
    """Files of one standing."""

    files: int = 0
    size_bytes: int = 0

    def add(self, stored: Stored) -> None:
        self.files += 1
        self.size_bytes += stored.size_bytes


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a look came to.

    skew_ms: how far the store's clock is ahead of ours; None: it does not tell.
    since: files from before it are not judged.
    orphans: what may be deleted; empty when `blocked` is not.
    open_uploads: uploads in parts that nobody will complete; they may be aborted.
    tallies: by standing, of all files below the pipeline's folder; all nothing when `blocked` is not.
    missing: committed references, old enough, whose file is not there; `unchecked`: so many more were not looked for.
    references, others: committed records of the topics that are references of this pipeline, and that are none at all.
    read_to: up to where each topic was read.
    """

    pipeline: str
    root: str
    listed_at_ms: int
    skew_ms: int | None
    margin: Margin
    since: KnownSince
    orphans: tuple[Stored, ...]
    open_uploads: tuple[OpenUpload, ...]
    tallies: Mapping[Standing, Tally]
    missing: tuple[Missing, ...]
    unchecked: int
    references: int
    others: int
    blocked: tuple[Blocked, ...]
    read_to: Mapping[str, Mapping[int, int]]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What deleting came to. kept: files that were orphans in the look and are not any more, with the reason."""

    deleted: Tally
    aborted_uploads: int
    kept: tuple[tuple[Stored, str], ...]
