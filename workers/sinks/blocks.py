"""The blocks of an Avro file by Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Content = bytearray | memoryview
"""The bytes of a block."""


def blocks_by_python(
    values: Iterable[bytes],
    encode: Callable[[bytes, int], bytes],
    begun: bytearray,
    in_block: int = 0,
    before: int = 0,
    *,
    block_bytes: int,
) -> Iterator[tuple[int, Content]]:
    """Encode values; yield the number of records in each block and its bytes, which last until the next one.

    Args:
        encode: for a value and its number in the file, from 1 on.
        begun, in_block: the content of the first block so far, and its records.
        before: the records before this block.
        block_bytes: a block ends with the record by which it has so many.
    """
    block = begun
    for value in values:
        in_block += 1
        block += encode(value, before + in_block)
        if len(block) >= block_bytes:
            yield in_block, block
            block.clear()
            before, in_block = before + in_block, 0
    if in_block:
        yield in_block, block
