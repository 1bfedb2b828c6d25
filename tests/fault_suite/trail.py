"""What a reader saw, in a few bytes a thousand records, so that two readers of millions can be compared."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import zip_longest
from typing import NamedTuple

_BLOCK_RECORDS = 1_000


class Block(NamedTuple):
    """Records from `first_offset` on, and the hash of all that the partition showed up to its end."""

    first_offset: int
    digest: bytes


class _Partition:
    def __init__(self) -> None:
        self.count = 0
        self.hash = hashlib.blake2b(digest_size=16)
        self.blocks: list[Block] = []
        self.first_offset = 0

    def told(self) -> list[Block]:
        rest = self.count % _BLOCK_RECORDS
        return [*self.blocks, Block(self.first_offset, self.hash.digest())] if rest else self.blocks


class Trail:
    """Records as one reader was given them, partition by partition."""

    def __init__(self) -> None:
        self._partitions: defaultdict[int, _Partition] = defaultdict(_Partition)

    def saw(self, partition: int, offset: int, value: bytes) -> None:
        seen = self._partitions[partition]
        if seen.count % _BLOCK_RECORDS == 0:
            seen.first_offset = offset
        seen.hash.update(b"%d %d " % (offset, len(value)))
        seen.hash.update(value)
        seen.count += 1
        if seen.count % _BLOCK_RECORDS == 0:
            seen.blocks.append(Block(seen.first_offset, seen.hash.digest()))

    @property
    def count(self) -> int:
        return sum(seen.count for seen in self._partitions.values())

    def difference(self, other: Trail) -> str | None:
        """Where the two begin to differ, to a thousand records; None: they saw the same."""
        for partition in sorted(self._partitions.keys() | other._partitions.keys()):
            ours, theirs = self._partitions[partition], other._partitions[partition]
            for mine, yours in zip_longest(ours.told(), theirs.told()):
                if mine != yours:
                    first = min(block.first_offset for block in (mine, yours) if block is not None)
                    return (
                        f"partition {partition} from offset {first} on: one reader saw {ours.count} records of it, "
                        f"the other {theirs.count}"
                    )
        return None
