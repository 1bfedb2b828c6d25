"""A checkpoint of a file sink by what its files' references tell: filled, uploaded, referenced, committed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

import msgspec

from app.products.files.totals import Total
from app.products.files.written_file import WrittenFile, digest

KEPT_FOR = timedelta(days=30)
MOST_CHECKPOINTS = 20_000
"""Of one pipeline; the oldest go first."""


class Phase(StrEnum):
    """What a checkpoint did from one time to the next.

    FILL: from the first record of its first file until its last file got no more; by the task's clock.
    UPLOAD: from then until the last file was written from the spool, uploaded and verified; by the task's clock.
    REFERENCE: from then until the last reference was produced; in it the transaction begins and the offsets are sent.
        By the task's clock, or to the broker's where the topic has LogAppendTime.
    COMMIT: from then until a broker had written the commit beside the references; from the task's clock to the
        broker's, so that clocks which differ lengthen or shorten it.
    """

    FILL = "fill"
    UPLOAD = "upload"
    REFERENCE = "reference"
    COMMIT = "commit"


class FileCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint of a task's attempt, counted from 1 in it: the files of one transaction.

    opened_at: the earliest of its files; the other times: the latest. committed_at: None as long as no commit was read
    in one answer with a reference. seen_at: when the server had read all of them that it has.
    """

    transactional_id: str
    attempt: str
    checkpoint: int
    total: Total
    opened_at: datetime
    closed_at: datetime
    uploaded_at: datetime
    referenced_at: datetime
    committed_at: datetime | None
    seen_at: datetime

    def lengths_ms(self) -> dict[Phase, float | None]:
        """How long each phase took; None: not measured. Never below 0, as between two clocks it may come out."""
        times = (self.opened_at, self.closed_at, self.uploaded_at, self.referenced_at, self.committed_at)
        return {
            phase: None if end is None or begin is None else max(0.0, (end - begin) / timedelta(milliseconds=1))
            for phase, (begin, end) in zip(Phase, pairwise(times), strict=True)
        }

    @property
    def key(self) -> str:
        return digest(self.transactional_id, self.attempt, self.checkpoint)


def merged(one: FileCheckpoint, other: FileCheckpoint) -> FileCheckpoint:
    """Of two parts of the same checkpoint."""
    commits = [at for at in (one.committed_at, other.committed_at) if at is not None]
    return FileCheckpoint(
        transactional_id=one.transactional_id,
        attempt=one.attempt,
        checkpoint=one.checkpoint,
        total=one.total + other.total,
        opened_at=min(one.opened_at, other.opened_at),
        closed_at=max(one.closed_at, other.closed_at),
        uploaded_at=max(one.uploaded_at, other.uploaded_at),
        referenced_at=max(one.referenced_at, other.referenced_at),
        committed_at=max(commits, default=None),
        seen_at=max(one.seen_at, other.seen_at),
    )


def checkpoints_of(files: Iterable[WrittenFile]) -> dict[str, FileCheckpoint]:
    """By their keys."""
    found: dict[str, FileCheckpoint] = {}
    for file in files:
        part = _of_one(file)
        key = part.key
        found[key] = merged(found[key], part) if key in found else part
    return found


def _of_one(file: WrittenFile) -> FileCheckpoint:
    return FileCheckpoint(
        transactional_id=file.transactional_id,
        attempt=file.attempt,
        checkpoint=file.checkpoint,
        total=Total(files=1, records=file.records, size_bytes=file.size_bytes),
        opened_at=file.opened_at,
        closed_at=file.closed_at,
        uploaded_at=file.uploaded_at,
        referenced_at=file.referenced_at,
        committed_at=file.committed_at,
        seen_at=file.seen_at,
    )
