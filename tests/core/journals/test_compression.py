"""Every codec as its writers use it, and damaged, truncated or too large input."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.compression import Compression, decompress
from app.core.journals.wire_format import MalformedError

_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial(data: bytes, *, block_bytes: int = 32 << 10) -> bytes:
    """As snappy-java writes a stream, in blocks."""
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[at : at + block_bytes])) for at in range(0, len(data), block_bytes)
    ]
    return _HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


WRITERS: dict[str, tuple[Compression, Callable[[bytes], bytes]]] = {
    "none": (Compression.NONE, lambda data: data),
    "gzip": (Compression.GZIP, gzip.compress),
    "snappy of librdkafka": (Compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "snappy of Java": (Compression.SNAPPY, xerial),
    "lz4": (Compression.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (Compression.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
}
COMPRESSING = [name for name in WRITERS if name != "none"]


@pytest.mark.parametrize("writer", WRITERS)
@given(st.binary(max_size=2_000))
def test_compressed_bytes_are_restored(writer: str, data: bytes) -> None:
    codec, compress = WRITERS[writer]
    assert decompress(codec, compress(data)) == data


@pytest.mark.parametrize("writer", COMPRESSING)
def test_more_than_one_buffer_or_block_is_restored(writer: str) -> None:
    codec, compress = WRITERS[writer]
    data = bytes(3_000_000)
    assert decompress(codec, compress(data)) == data


@pytest.mark.parametrize("writer", COMPRESSING)
def test_a_byte_more_than_the_bound_is_refused(writer: str) -> None:
    codec, compress = WRITERS[writer]
    data = compress(bytes(1_000_001))
    assert len(decompress(codec, data, max_bytes=1_000_001)) == 1_000_001
    with pytest.raises(MalformedError, match="more than 1000000 bytes"):
        decompress(codec, data, max_bytes=1_000_000)


@pytest.mark.parametrize("writer", COMPRESSING)
def test_truncated_input_is_reported(writer: str) -> None:
    codec, compress = WRITERS[writer]
    data = compress(b"fenceline" * 100)
    with pytest.raises(MalformedError):
        decompress(codec, data[: len(data) // 2], max_bytes=10_000)


@given(st.sampled_from(range(8)), st.binary(max_size=100))
def test_no_bytes_raise_anything_else(codec: int, data: bytes) -> None:
    for guess in (data, _HEADER + data):
        try:
            decompress(codec, guess, max_bytes=100_000)
        except MalformedError:
            continue
