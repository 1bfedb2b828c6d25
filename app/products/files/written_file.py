"""A file that a pipeline wrote, as its reference tells it, and where that reference lies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from app.kit.errors import InvalidError

KEPT_FOR = timedelta(days=30)
"""So long after its reference was read here. The file and its reference stay where they are."""
MOST_FILES = 100_000
"""Of one pipeline; the oldest go first. Totals are counted when a reference is read, and do not shrink."""


class InputOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Of one input partition: the lowest and the highest offset whose output is in the file, both in it."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is uploaded, verified and referenced.

    partition: the value of each partition column, by name.
    opened_at, closed_at, uploaded_at: by the task's clock: its first record, its last one, all of it verified in the
        store.
    referenced_at: the timestamp of its reference: the task's clock, or the broker's where the topic has LogAppendTime.
    committed_at: when a broker wrote the commit of the transaction into the reference's partition, by that broker's
        clock; None where the commit was not in the same answer as the reference.
    seen_at: when the server read the reference.
    topic, topic_partition, offset: where the reference lies.
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
    """A file as it is kept; ids grow in the order in which references were read."""

    id: int
    file: WrittenFile


class FileFilter(msgspec.Struct, frozen=True, kw_only=True):
    """partition: the values that a file must have; since, until: of `referenced_at`, the latter not in it."""

    partition: Mapping[str, str] = {}
    since: datetime | None = None
    until: datetime | None = None


def partition_filter(words: Iterable[str]) -> dict[str, str]:
    """What `column=value` words ask for; a value may contain further equals signs.

    Raises InvalidError at field `partition` for a word without one, and for two values of one column.
    """
    wanted: dict[str, str] = {}
    for word in words:
        column, equals, value = word.partition("=")
        if not equals or not column:
            raise InvalidError(f"{word!r} is not of the form column=value, such as user=anna", field="partition")
        if wanted.setdefault(column, value) != value:
            raise InvalidError(f"no file has two values of {column}", field="partition")
    return wanted


def partition_text(partition: Mapping[str, str], columns: Iterable[str] = ()) -> str:
    """`user=anna, date=2013-01-31`: in the order of `columns`, others behind them by name."""
    first = [name for name in columns if name in partition]
    rest = sorted(name for name in partition if name not in first)
    return ", ".join(f"{name}={partition[name]}" for name in (*first, *rest))


def digest(*parts: object) -> str:
    """SHA-256 of the parts in hexadecimal: what stands in an index in place of texts of any length."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()
