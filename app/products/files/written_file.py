"""A file that a pipeline wrote, from its reference, with the place of the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from app.kit.errors import InvalidError

KEPT_FOR = timedelta(days=30)
"""Retention after its reference was read. The file and its reference are not deleted."""
MOST_FILES = 100_000
"""Most files of one pipeline; the oldest are deleted first. Totals never shrink."""


class InputOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest and the highest offset of one input partition with an output in the file, both included."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is uploaded, verified and referenced.

    partition: the value of each partition column, by name.
    opened_at, closed_at, uploaded_at: by the task's clock, its first record, its last record, and its verification.
    referenced_at: the timestamp of its reference, by the task's clock, or the broker's if the topic has LogAppendTime.
    committed_at: time of the commit marker in the reference's partition, by the broker's clock. None if the marker was
        not in the same answer as the reference.
    seen_at: time at which the server read the reference.
    topic, topic_partition, offset: place of the reference.
    """

    path: str
    root: str
    partition: dict[str, str]
    size_bytes: int
    records: int
    sha256: str
    codec: str
    fingerprint: str
    inputs: tuple[InputOffsets, ...]
    transactional_id: str
    attempt: str
    checkpoint: int
    opened_at: datetime
    closed_at: datetime
    uploaded_at: datetime
    referenced_at: datetime
    committed_at: datetime | None
    seen_at: datetime
    topic: str
    topic_partition: int
    offset: int

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.topic_partition} at offset {self.offset}"


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file; ids grow in the order of reading."""

    id: int
    file: WrittenFile


class FileFilter(msgspec.Struct, frozen=True, kw_only=True):
    """partition: required partition values. since, until: range of `referenced_at`, the latter excluded."""

    partition: Mapping[str, str] = {}
    since: datetime | None = None
    until: datetime | None = None


def partition_filter(words: Iterable[str]) -> dict[str, str]:
    """Parse `column=value` filters; a value may contain further equals signs.

    Raises InvalidError at field `partition` for another form, and for two values of one column.
    """
    wanted: dict[str, str] = {}
    for word in words:
        column, equals, value = word.partition("=")
        if not equals or not column:
            raise InvalidError(f"{word!r} does not have the form column=value, such as user=anna", field="partition")
        if wanted.setdefault(column, value) != value:
            raise InvalidError(f"the filter has two values of {column}, but files have one", field="partition")
    return wanted


def partition_text(partition: Mapping[str, str], columns: Iterable[str] = ()) -> str:
    """Return a text such as `user=anna, date=2013-01-31`, in the order of `columns`, then by name."""
    first = [name for name in columns if name in partition]
    rest = sorted(name for name in partition if name not in first)
    return ", ".join(f"{name}={partition[name]}" for name in (*first, *rest))


def digest(*parts: object) -> str:
    """Return the SHA-256 of the parts in hexadecimal, for indexes of texts of any length."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()
