"""A checkpoint of a file sink from its references, with its phases: fill, upload, reference, commit."""

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
"""Most checkpoints of one pipeline; the oldest are deleted first."""


class CheckpointPhase(StrEnum):
    """The phases of a checkpoint.

    FILL: from the first record of its first file to the last record of its last file; by the task's clock.
    UPLOAD: from then until the last file is written from the spool, uploaded and verified; by the task's clock.
    REFERENCE: from then until the last reference is produced, including the begin of the transaction and the offsets.
        By the task's clock; its end by the broker's if the topic has LogAppendTime.
    COMMIT: from then to the commit marker in the references' partitions. From the task's clock to the broker's, so a
        difference of clocks lengthens or shortens it.
    """

    FILL = "fill"
    UPLOAD = "upload"
    REFERENCE = "reference"
    COMMIT = "commit"


class FileCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one transaction: one checkpoint of a task's attempt, numbered from 1.

    opened_at: the earliest of its files; the other times: the latest. committed_at: None unless a commit marker was in
    the same answer as a reference. seen_at: time at which the server read its newest reference.
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

    def lengths_ms(self) -> dict[CheckpointPhase, float | None]:
        """Return the duration of each phase; None: not measured. Never below 0, also with a difference of clocks."""
        times = (self.opened_at, self.closed_at, self.uploaded_at, self.referenced_at, self.committed_at)
        return {
            phase: None if end is None or begin is None else max(0.0, (end - begin) / timedelta(milliseconds=1))
            for phase, (begin, end) in zip(CheckpointPhase, pairwise(times), strict=True)
        }

    @property
    def key(self) -> str:
        return digest(self.transactional_id, self.attempt, self.checkpoint)


def merged(one: FileCheckpoint, other: FileCheckpoint) -> FileCheckpoint:
    """Merge two parts of the same checkpoint."""
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
    """Return the checkpoints of files by their keys."""
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
