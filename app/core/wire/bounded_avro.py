"""An Avro container whose blocks are inflated one by one, each within a bound: a small file may have a huge block.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

import fastavro

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BLOCK_BYTES: Final = 128 << 20
"""Inflated. A sink ends a block at 256 KiB, or after the one record that is larger."""

_UNTYPED: Final = cast(Any, fastavro)
"""Its streams have any type, and it has no type annotations."""
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_CODEC: Final = "avro.codec"
_HEADER: Final[dict[str, Any]] = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC_BYTES}},
    ],
}


class BlockError(ValueError):
    """A block that cannot be read, or is larger than the bound when it is inflated."""


class BoundedContainer(io.RawIOBase):
    """Reads as the same container without a codec. Holds one inflated block at a time.

    Raises BlockError, in the constructor or in a read.
    """

    def __init__(self, content: BinaryIO, *, max_block_bytes: int = MAX_BLOCK_BYTES) -> None:
        super().__init__()
        self._content = content
        self._max_bytes = max_block_bytes
        header = cast("dict[str, Any]", _UNTYPED.schemaless_reader(content, _HEADER, None))
        codec = cast(bytes, header["meta"].get(_CODEC, b"null")).decode("utf-8", "replace")
        inflate = _INFLATERS.get(codec)
        if inflate is None:
            raise BlockError(f"its codec is {codec[:80]!r}; only {', '.join(_INFLATERS)} are read")
        self._inflate = inflate
        head = io.BytesIO()
        _UNTYPED.schemaless_writer(head, _HEADER, {**header, "meta": {**header["meta"], _CODEC: b"null"}})
        self._ready = io.BytesIO(head.getvalue())

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return as many bytes as requested, fewer only at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 16), b""))
        parts = [self._ready.read(size)]
        missing = size - len(parts[0])
        while missing and self._next_block():
            parts.append(self._ready.read(missing))
            missing -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next_block(self) -> bool:
        count, is_there = _varint(self._content)
        if not is_there:
            return False
        length, _ = _varint(self._content)
        size = _signed(length)
        if not 0 <= size <= self._max_bytes:
            raise BlockError(f"a block has {size} bytes by its header; at most {self._max_bytes} are read")
        data = self._content.read(size)
        if len(data) < size:
            raise BlockError(f"it ends within a block: {len(data)} of {size} bytes")
        inflated = self._inflate(data, self._max_bytes)
        sync = self._content.read(_SYNC_BYTES)
        self._ready = io.BytesIO(b"".join([_encoded(count), _encoded(len(inflated) << 1), inflated, sync]))
        return True


def _varint(content: BinaryIO) -> tuple[int, bool]:
    """Return a number as it is encoded, not yet signed; False: there is nothing more."""
    value = 0
    for at in range(10):
        byte = content.read(1)
        if not byte:
            if at:
                raise BlockError("it ends within a number")
            return 0, False
        value |= (byte[0] & 0x7F) << 7 * at
        if byte[0] < 0x80:
            return value, True
    raise BlockError("a number has more than 64 bits")


def _signed(value: int) -> int:
    return value >> 1 if value & 1 == 0 else -(value >> 1) - 1


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _null(data: bytes, max_bytes: int) -> bytes:
    del max_bytes
    return data


def _deflate(data: bytes, max_bytes: int) -> bytes:
    # Avro's deflate is without the header and the checksum of zlib.
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        inflated = decompressor.decompress(data, max_bytes)
    except zlib.error as error:
        raise BlockError(f"a block cannot be inflated: {error}") from error
    return _whole(inflated, is_whole=decompressor.eof, max_bytes=max_bytes)


def _zstandard(data: bytes, max_bytes: int) -> bytes:
    # A block is one frame. A window above the bound would be allocated before the first byte comes out.
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: max(10, max_bytes.bit_length())}
    decompressor = zstd.ZstdDecompressor(options=options)
    try:
        inflated = decompressor.decompress(data, max_length=max_bytes)
    except zstd.ZstdError as error:
        raise BlockError(f"a block cannot be inflated: {error}") from error
    return _whole(inflated, is_whole=decompressor.eof, max_bytes=max_bytes)


def _whole(inflated: bytes, *, is_whole: bool, max_bytes: int) -> bytes:
    if is_whole:
        return inflated
    if len(inflated) < max_bytes:
        raise BlockError("a block ends before its compressed data is complete")
    raise BlockError(f"a block is larger than {max_bytes} bytes when it is inflated")


_INFLATERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "null": _null,
    "deflate": _deflate,
    "zstandard": _zstandard,
}
