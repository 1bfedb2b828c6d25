"""The files of the observer's materialized state: one for each Kafka cluster, in the state directory.

    a line of JSON that describes the rest
    parts, each of a length (four bytes) and as much of compressed MessagePack: first the positions, then ids and
        groups, some hundreds a part, which bounds memory and the delay of other threads
    a part of length 0, and the checksum (four bytes) of everything before it

A file that does not match its first line, or of another version or cluster, is renamed. Then the journals are read from
their beginning, which only costs time.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import quote

import msgspec

from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.journals import Restored
from app.core.observing.live_cluster import Folds
from app.kit.errors import UnavailableError
from app.kit.state_files import StateFileError, open_private, write_private_parts

log = logging.getLogger(__name__)

T = TypeVar("T")
_FORMAT = "fenceline journals"
_VERSION = 4
_PER_PART = 500
# A part has some hundred ids, or a few groups of a hundred thousand offsets.
_LARGEST_PART = 1 << 28
_UINT32 = struct.Struct(">I")


class _FoldHeader(msgspec.Struct, frozen=True, kw_only=True):
    """groups: the patterns of the groups in it; records of other groups were skipped."""

    format: str
    version: int
    kafka_cluster_id: str
    groups: tuple[str, ...]
    saved_at: datetime


class FoldFiles:
    """The FoldStore port, in `folder`."""

    def __init__(self, folder: Path, *, groups: tuple[str, ...]) -> None:
        self._folder = folder
        self._groups = groups

    def load(self, kafka_cluster_id: str) -> Restored:
        file = self._file(kafka_cluster_id)
        try:
            with open_private(file) as opened:
                if opened is None:
                    return Restored(Folds(), "")
                header, folds = _read(opened, kafka_cluster_id)
        except (StateFileError, msgspec.MsgspecError, zlib.error, ValueError) as error:
            return Restored(Folds(), set_aside(file, str(error), effect="the journals are read from their beginning"))
        if header.groups != self._groups:
            folds.groups = LiveGroups()
        return Restored(folds, "")

    def save(self, kafka_cluster_id: str, folds: Folds) -> None:
        header = _FoldHeader(
            format=_FORMAT,
            version=_VERSION,
            kafka_cluster_id=kafka_cluster_id,
            groups=self._groups,
            saved_at=datetime.now(UTC),
        )
        try:
            write_private_parts(self._file(kafka_cluster_id), with_checksum(_written(header, folds)))
        except StateFileError as error:
            raise UnavailableError(f"the state of the journals is not saved: {error}") from error

    def _file(self, kafka_cluster_id: str) -> Path:
        return self._folder / f"{quote(kafka_cluster_id, safe='')}.journals"


def set_aside(file: Path, why: str, *, effect: str) -> str:
    """Rename a file that cannot be used. Return a sentence with the reason and the effect, which is logged."""
    aside = file.with_suffix(".unusable")
    note = f"{file} cannot be used ({why}), so {effect}"
    try:
        file.replace(aside)
    except OSError as error:
        note += f"; it could not be renamed either: {error.strerror or error}"
    else:
        note += f"; it was renamed to {aside.name}"
    log.warning(note)
    return note


def _written(header: _FoldHeader, folds: Folds) -> Iterator[bytes]:
    yield msgspec.json.encode(header) + b"\n"
    replace = msgspec.structs.replace
    how_far = Folds(replace(folds.transactions, ids={}), replace(folds.groups, groups={}))
    yield from written_part(how_far)
    for values in (folds.transactions.ids.values(), folds.groups.groups.values()):
        for some in in_parts(values):
            yield from written_part(some)
        yield from written_part(())


def written_part(value: object) -> Iterator[bytes]:
    """Yield a part: its length and its compressed content."""
    # Level 1: a tenth of the size for little time, during which other threads run.
    packed = zlib.compress(msgspec.msgpack.encode(value), 1)
    yield _UINT32.pack(len(packed))
    yield packed


def in_parts(values: Iterable[T]) -> Iterator[Sequence[T]]:
    """Yield the values in portions of one part."""
    rest = iter(values)
    while some := tuple(islice(rest, _PER_PART)):
        yield some


def with_checksum(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file and its end."""
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
        yield piece
    yield _UINT32.pack(0)
    yield _UINT32.pack(checksum)


def _read(opened: BinaryIO, kafka_cluster_id: str) -> tuple[_FoldHeader, Folds]:
    """Raises ValueError, a zlib.error or a MsgspecError, with the reason."""
    first = opened.readline()
    header = msgspec.json.decode(first, type=_FoldHeader)
    if (header.format, header.version) != (_FORMAT, _VERSION):
        raise ValueError(f"it is {header.format}, version {header.version}, not {_FORMAT}, version {_VERSION}")
    if header.kafka_cluster_id != kafka_cluster_id:
        raise ValueError(f"it is about the cluster {header.kafka_cluster_id}")
    parts = checked_parts(opened, zlib.crc32(first))
    folds = msgspec.msgpack.decode(next(parts, b""), type=Folds)
    folds.transactions.ids |= {one.transactional_id: one for one in _values(parts, LiveTransaction)}
    folds.groups.groups |= {one.group: one for one in _values(parts, LiveGroup)}
    if next(parts, None) is not None:
        raise ValueError("it is longer than it should be")
    return header, folds


def _values(parts: Iterator[bytes], of: type[T]) -> Iterator[T]:
    """Yield the values of the parts up to an empty one."""
    for part in parts:
        some = msgspec.msgpack.decode(part, type=tuple[of, ...])
        if not some:
            return
        yield from some


def checked_parts(opened: BinaryIO, checksum: int) -> Iterator[bytes]:
    """Yield every part, decompressed; raise ValueError at the end for a wrong checksum."""
    while True:
        length = opened.read(_UINT32.size)
        if len(length) < _UINT32.size:
            raise ValueError("it is cut off")
        (size,) = _UINT32.unpack(length)
        if size == 0:
            break
        if size > _LARGEST_PART:
            raise ValueError(f"a part of it has a length of {size} bytes")
        packed = opened.read(size)
        if len(packed) < size:
            raise ValueError("it is cut off")
        checksum = zlib.crc32(packed, zlib.crc32(length, checksum))
        yield zlib.decompress(packed)
    if opened.read() != _UINT32.pack(checksum):
        raise ValueError("it is cut off or changed")
