"""Avro containers whose blocks claim or inflate to more than the bound."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any, BinaryIO, cast

import fastavro
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from app.core.wire.bounded_avro import BlockError, BoundedContainer
from app.core.wire.file_contents import NotAsReferencedError, records
from tests.support.avro_files import avro_bytes, write_file

SCHEMA: dict[str, Any] = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
BOUND = 1 << 20
CODECS = ("null", "deflate", "zstandard")


def read(content: bytes, *, bound: int = BOUND) -> list[Any]:
    container = BoundedContainer(io.BytesIO(content), max_block_bytes=bound)
    return list(fastavro.reader(cast("BinaryIO", container)))


@pytest.mark.parametrize("codec", CODECS)
@given(texts=st.lists(st.text(max_size=200), max_size=30))
def test_what_is_written_is_read(codec: str, texts: list[str]) -> None:
    written = [{"a": text} for text in texts]
    assert read(avro_bytes(written, SCHEMA, codec)) == written


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_is_refused_before_it_is_larger_than_the_bound(codec: str) -> None:
    small, large = ([{"a": "x" * size}] for size in (BOUND - 100, 50 * BOUND))
    assert read(avro_bytes(small, SCHEMA, codec)) == small
    content = avro_bytes(large, SCHEMA, codec)
    tracemalloc.start()
    try:
        with pytest.raises(BlockError, match=f"{BOUND}"):
            read(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The control: read without the bound the block takes fifty times as much.
    assert peak < 4 * BOUND
    assert read(content, bound=60 * BOUND) == large


def test_a_frame_that_asks_for_a_large_window_is_refused() -> None:
    """The window is allocated before the first byte is inflated."""
    header = avro_bytes([], SCHEMA, "zstandard")
    # Magic number, a descriptor with a window, and the largest window that the format has.
    frame = bytes.fromhex("28b52ffd") + b"\x00" + b"\xf8" + b"\x01\x00\x00"
    block = b"\x02" + bytes([len(frame) << 1]) + frame + header[-16:]
    with pytest.raises(BlockError):
        read(header + block)


@given(data=st.data(), codec=st.sampled_from(CODECS))
def test_damage_anywhere_is_an_error_or_other_records(data: st.DataObject, codec: str) -> None:
    content = bytearray(avro_bytes([{"a": "x" * 50}] * 5, SCHEMA, codec))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    found: list[Any] = []
    # Codecs and fastavro raise errors of their own, which the caller catches. A crash, a bomb or a loop must not come.
    try:
        found = read(bytes(content[: cut or None]))
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001 - as the caller does
        event(type(error).__name__)
    assert len(found) <= len(content)


def test_a_file_with_more_records_than_its_reference_says_is_left_there(tmp_path: Path) -> None:
    """Records of no bytes: a block of a few bytes may claim a billion of them."""
    empty: dict[str, Any] = {"type": "record", "name": "r", "fields": []}
    reference = write_file(tmp_path, 1, [{}], schema=empty)
    header = avro_bytes([], empty, "null")
    billion = b"\x80\xa8\xd6\xb9\x07" + b"\x00" + header[-16:]
    found = records(reference, io.BytesIO(header + billion))
    assert next(found) == {}
    with pytest.raises(NotAsReferencedError, match="more than 1 records"):
        next(found)
