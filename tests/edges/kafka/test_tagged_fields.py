"""Answers with very many tagged fields are decoded in linear time, with a limit for each structure."""

from __future__ import annotations

import gc
import struct
import time
from typing import Any

import pytest

from app.edges.kafka import raw_connections
from app.edges.kafka.tagged_fields import LARGEST_BYTES
from kafka.protocol.metadata.metadata import MetadataResponse  # pyright: ignore[reportMissingTypeStubs]

_Metadata: Any = MetadataResponse
_VERSION = 12
_BROKERS = 50_000
assert raw_connections, "it is what makes the decoders so"


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def _metadata(brokers: int, *, tag: bytes) -> bytes:
    """Metadata of brokers with one tagged field each, number 99, which no client knows."""
    tagged = b"\1" + _varint(99) + _varint(len(tag)) + tag
    one = struct.pack(">i", 1) + _varint(2) + b"h" + struct.pack(">i", 9092) + b"\0" + tagged
    return (
        struct.pack(">i", 0) + _varint(brokers + 1) + one * brokers + b"\0" + struct.pack(">i", 1) + _varint(1) + b"\0"
    )


def _seconds(brokers: int) -> float:
    """Return the processor time of decoding it, without other threads and collections of the suite's own garbage."""
    answer = _metadata(brokers, tag=b"")
    gc.disable()
    try:
        began = time.thread_time()
        assert len(_Metadata.decode(answer, version=_VERSION).brokers) == brokers
        return time.thread_time() - began
    finally:
        gc.enable()


def test_four_times_as_many_tagged_fields_take_about_four_times_as_long() -> None:
    """The library copies all that is left of the answer at each of them: sixteen times as long."""
    _seconds(100)  # the decoder is made at the first answer
    assert _seconds(4 * _BROKERS) < 8 * _seconds(_BROKERS)


def test_tagged_fields_are_read_as_before_and_bounded() -> None:
    first, second = _Metadata.decode(_metadata(2, tag=b"x" * 1000), version=_VERSION).brokers
    assert first.unknown_tags == second.unknown_tags == {"_99": b"x" * 1000}
    with pytest.raises(ValueError, match=f"behind {LARGEST_BYTES} bytes"):
        _Metadata.decode(_metadata(2, tag=b"x" * LARGEST_BYTES), version=_VERSION)
