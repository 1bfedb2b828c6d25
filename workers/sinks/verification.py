"""The ids that went into the files of a committed checkpoint, compared with those that are read again."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import fastavro
import msgspec

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.reading_back import json_values
from app.core.transforms import field_path
from app.core.transforms.field_path import MISSING
from app.kit.store_failures import sentence_of
from workers.sinks.json_records import decode
from workers.sinks.reading_back import Uploads
from workers.sinks.uploads import StoreRefusalError, ToUpload, check_content

MOST_DUE = 100
"""The number of checkpoints whose files may wait to be read again; their ids are held in memory."""

_SHOWN = 20
_ASKED_AGAIN_S = 5.0


class DifferenceError(Exception):
    """The files of a committed checkpoint differ from their records. `lost` and `unexpected` are the whole sets."""

    def __init__(self, message: str, *, lost: Counter[str], unexpected: Counter[str]) -> None:
        super().__init__(message)
        self.lost = lost
        self.unexpected = unexpected


class UnreadError(Exception):
    """The store did not return a file that it may have: nothing is known. It is asked again."""


class CommittedCheckpoint(NamedTuple):
    """A checkpoint whose files are to be read again. ids: how often each came in."""

    checkpoint: int
    ids: Counter[str]
    files: tuple[ToUpload, ...]


class Verification:
    """Keeps the ids of an open checkpoint, and compares them after the commit. It takes the ids before any file, schema
    or spool is used.

    An id is the JSON of the field that has it; records without one count under an id of their own, `null`.
    """

    def __init__(self, root: str, id_field: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises FieldPathError for an invalid path of the field."""
        self._clock = clock
        self._not_before = 0.0
        self._uploads = Uploads(root)
        self._id_of = field_path.getter(field_path.parse(id_field))
        self._ids: Counter[str] = Counter()
        self._due: list[CommittedCheckpoint] = []
        self._begin()

    @property
    def due(self) -> int:
        """The number of checkpoints that are committed and not compared yet."""
        return len(self._due)

    def ids(self, values: Iterable[bytes]) -> Counter[str]:
        """The ids of input records. Raises BadValueError for one that is no JSON."""
        return Counter([self._id(decode(value)) for value in values])

    def expect(self, ids: Counter[str]) -> None:
        """Add ids that must be in the files of the open checkpoint."""
        self._ids += ids

    def forget(self) -> None:
        """Discard the ids of the open checkpoint, which is not committed."""
        self._ids = Counter()

    def committed(self, checkpoint: int, files: Iterable[ToUpload]) -> None:
        """Record the commit of the open checkpoint; it is compared at the next `check`."""
        self._due.append(CommittedCheckpoint(checkpoint, self._ids, tuple(files)))
        self._ids = Counter()

    def check(self, between: Callable[[], None], *, within_s: float = math.inf) -> None:
        """Read the files committed since the last time, and compare. Nothing is read for 5 s after an UnreadError.

        Args:
            between: called before each file.
            within_s: after that no other file is begun; the next call continues where this one has stopped.

        Raises:
            DifferenceError: a file is missing or another one, an id is missing or unexpected.
            UnreadError: the due checkpoints stay due.
        """
        until = self._clock() + within_s
        while self._due and self._clock() >= self._not_before:
            due = self._due[0]
            for file in due.files[self._read_files :]:
                if self._clock() >= until:
                    return
                between()
                self._take(file, due)
                self._read_files += 1
            found, unreadable = self._found, self._unreadable
            del self._due[0]
            self._begin()
            _compare(due, found, unreadable)

    def _begin(self) -> None:
        """Begin with the oldest due checkpoint."""
        self._read_files = 0
        self._found: Counter[str] = Counter()
        self._unreadable: list[str] = []

    def _take(self, file: ToUpload, due: CommittedCheckpoint) -> None:
        try:
            self._found += self._read(file)
        except (FileNotFoundError, StoreRefusalError, ValueError) as error:
            # The others are read all the same: then the missing ids are those of this file.
            self._unreadable.append(sentence_of(error))
        except Exception as error:  # the border to the libraries that fsspec calls
            self._not_before = self._clock() + _ASKED_AGAIN_S
            raise UnreadError(
                f"checkpoint {due.checkpoint} is committed, and not compared yet: {file.path} cannot be read: "
                f"{sentence_of(error)}"
            ) from error

    def _read(self, file: ToUpload) -> Counter[str]:
        with self._uploads.open(file.path) as opened:
            check_content(opened, file, where=f"{self._uploads.root}/{file.path}", deadline_s=float("inf"))
        with self._uploads.open(file.path) as opened:
            reader = fastavro.reader(opened)
            restored = json_values(cast(AvroSchema, reader.writer_schema))
            records = cast("Iterator[dict[str, Any]]", reader)
            return Counter([self._id(restored(one) if restored else one) for one in records])

    def _id(self, record: Any) -> str:
        found = self._id_of(cast("dict[str, Any]", record)) if isinstance(record, dict) else None
        return msgspec.json.encode(None if found is MISSING else found).decode()


def _compare(due: CommittedCheckpoint, found: Counter[str], unreadable: Sequence[str]) -> None:
    """Raises DifferenceError."""
    if not unreadable and found == due.ids:
        return
    lost, unexpected = due.ids - found, found - due.ids
    cause = f"; {len(unreadable)} of them cannot be read, such as: {unreadable[0]}" if unreadable else ""
    raise DifferenceError(
        f"checkpoint {due.checkpoint} is committed, and its files differ from its records. {lost.total()} of "
        f"{due.ids.total()} ids are missing{_some(lost)}, {unexpected.total()} are too many"
        f"{_some(unexpected)}{cause}",
        lost=lost,
        unexpected=unexpected,
    )


def _some(ids: Counter[str]) -> str:
    if not ids:
        return ""
    shown = ", ".join(sorted(ids)[:_SHOWN])
    return f" ({shown}{', …' if len(ids) > _SHOWN else ''})"
