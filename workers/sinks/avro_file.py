"""One Avro object container file on the local disk, from values of JSON.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import fastavro
import msgspec

from app.core.avro_schemas.shape import BadValueError
from app.core.pipelines.pipeline import AvroCodec
from workers.native.avro import NativeBlocks
from workers.native.library import NativeLibrary
from workers.sinks.avro_binary import varint
from workers.sinks.avro_encoder import AvroEncoder
from workers.sinks.blocks import Content, blocks_by_python
from workers.sinks.frames import in_pieces
from workers.sinks.parts import PartValues

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BYTES: Final = 256 * 1024
"""A block is compressed and written when its records have reached this size; memory holds about four times as much."""

_SYNC_BYTES: Final = 16
_ZSTD_LEVEL: Final = 3
_DEFLATE_LEVEL: Final = 6


class AvroFileError(Exception):
    """The file could not be written, and does not exist; the message has its name and the reason."""


class Written(NamedTuple):
    """The content of a file: records, its size, and SHA-256 of all of it in hexadecimal."""

    records: int
    size_bytes: int
    sha256: str


def write(
    values: Iterable[bytes],
    schema: dict[str, Any],
    *,
    codec: AvroCodec,
    path: Path,
    syncs: bool = True,
    native: NativeLibrary | None = None,
) -> Written:
    """Write one file complete, or not at all. The same values give the same bytes at a path of that name.

    Args:
        values: JSON objects that fit the schema, encoded; they are read once, and not kept.
        schema: of a record, inferred or given, without problems (app/core/avro_schemas/given.py). The encoder of a
            schema is kept for the next file.
        path: without a file yet, in an existing folder.
        syncs: whether to return only when the disk has it.
        native: to encode by C where that is certain; None: by Python. The bytes are the same.

    Raises:
        BadValueError: a value that does not fit; the message has its number in the file.
        AvroFileError: the file system refuses it: a full disk, an existing file.
    """
    prepared = _prepare(msgspec.json.encode(schema), codec, native)
    try:
        file = path.open("xb")
    except OSError as error:
        raise AvroFileError(f"{path} cannot be made: {error.strerror}") from error
    try:
        with file:
            written = prepared.write(values, file, sync=hashlib.sha256(path.name.encode()).digest()[:_SYNC_BYTES])
            file.flush()
            if syncs:
                os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise AvroFileError(f"{path} cannot be written: {error.strerror}") from error
        raise
    return written


class _Prepared:
    """The common part of all files of one schema and codec."""

    def __init__(self, schema: dict[str, Any], codec: AvroCodec, native: NativeLibrary | None) -> None:
        self._encode = AvroEncoder(schema).encode
        self._native = None if native is None else NativeBlocks(native, schema)
        self._compress = _COMPRESSIONS[codec]
        header = io.BytesIO()
        fastavro.writer(  # pyright: ignore[reportUnknownMemberType] - its stream is of any kind
            header, schema, [], codec=codec.value, sync_marker=bytes(_SYNC_BYTES)
        )
        self._header = header.getvalue()[:-_SYNC_BYTES]

    def write(self, values: Iterable[bytes], file: BinaryIO, *, sync: bytes) -> Written:
        tally = _Tally(file)
        tally.write(self._header + sync)
        records = 0
        if self._native is None:
            blocks = blocks_by_python(values, self._encoded, bytearray(), block_bytes=BLOCK_BYTES)
        else:
            pieces = values.pieces() if isinstance(values, PartValues) else in_pieces(values)
            blocks = self._native.blocks(pieces, self._encoded, block_bytes=BLOCK_BYTES)
        for in_block, content in blocks:
            records += in_block
            tally.write(self._block(in_block, content, sync))
        return Written(records, tally.size_bytes, tally.sha256)

    def _encoded(self, value: bytes, number: int) -> bytes:
        """number: of the record in the file, from 1 on."""
        try:
            return self._encode(value)
        except BadValueError as error:
            raise BadValueError(f"record {number} of the file does not fit: {error}") from error

    def _block(self, records: int, block: Content, sync: bytes) -> bytes:
        data = self._compress(block)
        return b"".join([varint(records), varint(len(data)), data, sync])


# The size is about 20 kB for a schema of 10 fields, 400 kB for 250 fields.
@lru_cache(maxsize=256)
def _prepare(schema: bytes, codec: AvroCodec, native: NativeLibrary | None) -> _Prepared:
    return _Prepared(msgspec.json.decode(schema), codec, native)


class _Tally:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)


def _deflate(data: Content) -> bytes:
    # Avro's deflate is without the header and the checksum of zlib.
    compressor = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


class _PerThread(threading.local):
    """A compressor takes as long to make as 20 records to compress, and most files have few."""

    def __init__(self) -> None:
        self.zstandard = zstd.ZstdCompressor(_ZSTD_LEVEL)


_per_thread = _PerThread()


def _zstandard(data: Content) -> bytes:
    return _per_thread.zstandard.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


_COMPRESSIONS: Final[dict[AvroCodec, Callable[[Content], bytes]]] = {
    AvroCodec.NULL: bytes,
    AvroCodec.DEFLATE: _deflate,
    AvroCodec.ZSTANDARD: _zstandard,
}
