"""The files of what a server remembers for lag: one for each Kafka cluster, in the state folder.

A line of JSON, then parts as in app/core/observing/fold_files.py: partitions, an empty part, groups, an empty part.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from app.core.clusters.partition import Partition
from app.core.hanging.search import StableEnd
from app.core.lag.book import LagBook, PartitionEnds
from app.core.lag.end_history import EndHistory
from app.core.lag.movement import Movement
from app.core.lag.report import GroupLag
from app.core.observing.fold_files import checked_parts, in_parts, set_aside, with_checksum, written_part
from app.kit.errors import UnavailableError
from app.kit.state_files import StateFileError, open_private, write_private_parts

_FORMAT = "fenceline lag"
_VERSION = 1


class _LagHeader(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    kafka_cluster_id: str


class _PartitionRow(msgspec.Struct, array_like=True):
    """times, ends: of the history, eight bytes each in this machine's order."""

    topic: str
    partition: int
    times: bytes
    ends: bytes
    last: StableEnd | None
    as_of_ms: int
    blocked_ms: int


class _GroupRow(msgspec.Struct, array_like=True):
    group: str
    series: bytes
    total: GroupLag | None
    moved: list[tuple[str, int, Movement]]


class LagFiles:
    """The LagStore port, in `folder`. A file that cannot be used is renamed: lag in seconds is "at least" for a day."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, kafka_cluster_id: str) -> LagBook:
        file = self._file(kafka_cluster_id)
        try:
            with open_private(file) as opened:
                return LagBook() if opened is None else _read(opened, kafka_cluster_id)
        except (StateFileError, msgspec.MsgspecError, zlib.error, ValueError) as error:
            set_aside(file, str(error), effect="the history of lag begins now")
            return LagBook()

    def save(self, kafka_cluster_id: str, book: LagBook) -> None:
        try:
            write_private_parts(self._file(kafka_cluster_id), with_checksum(_written(kafka_cluster_id, book)))
        except StateFileError as error:
            raise UnavailableError(f"the history of lag is not saved: {error}") from error

    def _file(self, kafka_cluster_id: str) -> Path:
        return self._folder / f"{quote(kafka_cluster_id, safe='')}.lag"


def _written(kafka_cluster_id: str, book: LagBook) -> Iterator[bytes]:
    header = _LagHeader(format=_FORMAT, version=_VERSION, kafka_cluster_id=kafka_cluster_id)
    yield msgspec.json.encode(header) + b"\n"
    partitions = (
        _PartitionRow(
            *at, one.history.times.tobytes(), one.history.ends.tobytes(), one.last, one.as_of_ms, one.blocked_ms
        )
        for at, one in book.ends.items()
    )
    groups = (
        _GroupRow(
            name,
            row.tobytes(),
            book.groups.get(name),
            [(at.topic, at.partition, moved) for at, moved in book.moved.get(name, {}).items()],
        )
        for name, row in book.series.items()
    )
    for rows in (partitions, groups):
        for some in in_parts(rows):
            yield from written_part(some)
        yield from written_part(())


def _read(opened: BinaryIO, kafka_cluster_id: str) -> LagBook:
    """Raises ValueError, a zlib.error or a MsgspecError, with the reason."""
    first = opened.readline()
    header = msgspec.json.decode(first, type=_LagHeader)
    if (header.format, header.version) != (_FORMAT, _VERSION):
        raise ValueError(f"it is {header.format}, version {header.version}, not {_FORMAT}, version {_VERSION}")
    if header.kafka_cluster_id != kafka_cluster_id:
        raise ValueError(f"it is about the cluster {header.kafka_cluster_id}")
    parts = checked_parts(opened, zlib.crc32(first))
    book = LagBook()
    for row in _rows(parts, _PartitionRow):
        history = EndHistory()
        history.times, history.ends = _numbers(row.times), _numbers(row.ends)
        if len(history.times) != len(history.ends):
            raise ValueError(f"the history of {row.topic}-{row.partition} is cut off")
        book.ends[Partition(row.topic, row.partition)] = PartitionEnds(
            history, row.last, row.as_of_ms, row.as_of_ms, row.blocked_ms
        )
    for row in _rows(parts, _GroupRow):
        book.series[row.group] = _numbers(row.series)
        if row.total is not None:
            book.groups[row.group] = row.total
        book.moved[row.group] = {Partition(topic, partition): moved for topic, partition, moved in row.moved}
    if next(parts, None) is not None:
        raise ValueError("it is longer than it should be")
    return book


def _rows(parts: Iterator[bytes], of: Any) -> Iterator[Any]:
    while some := msgspec.msgpack.decode(next(parts, b"\x90"), type=list[of]):
        yield from some


def _numbers(content: bytes) -> array[int]:
    found = array("q")
    found.frombytes(content)
    return found
