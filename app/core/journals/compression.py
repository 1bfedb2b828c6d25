"""The compressions of record batches, each with a bound: a small batch may be made to decompress to all of the memory.

Java producers write snappy in blocks with a header of their own (xerial), librdkafka writes one block without any.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum

import cramjam

from app.core.journals.wire_format import MalformedError, taken

MAX_DECOMPRESSED_BYTES = 64 << 20
_LEAST_BUFFER_BYTES = 64 << 10
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = len(_XERIAL_MAGIC) + 8
_BLOCK_LENGTH = struct.Struct(">i")


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_name(codec: int) -> str:
    """The name in Kafka's settings."""
    return Compression(codec).name.lower() if codec in set(Compression) else f"codec {codec}"


def decompress(codec: int, data: bytes, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress the bytes. Raises MalformedError for damage, for an unknown codec, and beyond `max_bytes`."""
    try:
        match codec:
            case Compression.NONE:
                return data
            case Compression.GZIP:
                return _gunzip(data, max_bytes)
            case Compression.SNAPPY:
                return _unsnappy(data, max_bytes)
            case Compression.LZ4 | Compression.ZSTD:
                return _fill(codec, data, max_bytes)
            case _:
                raise MalformedError(f"compressed with {codec_name(codec)}, which is not supported")
    except (zlib.error, struct.error, cramjam.DecompressionError) as error:
        raise MalformedError(f"not readable as {codec_name(codec)}: {error}") from error


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    # One byte more than the limit distinguishes too much from just enough.
    found = stream.decompress(data, max_bytes + 1)
    if len(found) > max_bytes:
        raise _too_much(max_bytes)
    if not stream.eof:
        raise MalformedError("not readable as gzip: it ends early")
    return found


def _unsnappy(data: bytes, max_bytes: int) -> bytes:
    found: list[bytes] = []
    left = max_bytes
    for block in _snappy_blocks(data):
        size = cramjam.snappy.decompress_raw_len(block)
        if size > left:
            raise _too_much(max_bytes)
        left -= size
        found.append(bytes(cramjam.snappy.decompress_raw(block)))
    return b"".join(found)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield data
        return
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        yield taken(data, at, length)
        at += length


def _fill(codec: int, data: bytes, max_bytes: int) -> bytes:
    """Neither format must state its decompressed size: a buffer that is too small is replaced by a larger one."""
    into = cramjam.lz4.decompress_into if codec == Compression.LZ4 else cramjam.zstd.decompress_into
    size = min(max(_LEAST_BUFFER_BYTES, 8 * len(data)), max_bytes)
    while True:
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: into(data, buffer)])
        except cramjam.DecompressionError as error:
            # The library has one exception for damage and for a full buffer.
            if size == max_bytes:
                raise MalformedError(
                    f"not readable as {codec_name(codec)}, or more than {max_bytes} bytes: {error}"
                ) from error
        size = min(8 * size, max_bytes)


def _too_much(max_bytes: int) -> MalformedError:
    return MalformedError(f"more than {max_bytes} bytes when decompressed")
