"""The records that a consumer saw, in 16 bytes each, so that two consumers of millions can be compared."""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from itertools import zip_longest

_DIGEST_BYTES = 8


class _Partition:
    def __init__(self) -> None:
        self.offsets = array("q")
        self.digests = array("Q")

    def without(self, offsets: Container[int]) -> Iterator[tuple[int, int]]:
        return (seen for seen in zip(self.offsets, self.digests, strict=True) if seen[0] not in offsets)


class Trail:
    """Records as one reader was given them, partition by partition."""

    def __init__(self) -> None:
        self._partitions: defaultdict[int, _Partition] = defaultdict(_Partition)

    def saw(self, partition: int, offset: int, value: bytes) -> None:
        seen = self._partitions[partition]
        seen.offsets.append(offset)
        seen.digests.append(int.from_bytes(hashlib.blake2b(value, digest_size=_DIGEST_BYTES).digest()))

    @property
    def count(self) -> int:
        return sum(len(seen.offsets) for seen in self._partitions.values())

    def beyond(self, other: Trail) -> Iterator[tuple[int, int]]:
        """Partition and offset of what only this one saw, in order."""
        for partition in sorted(self._partitions):
            ours, theirs = self._partitions[partition], other._partitions[partition]
            if ours.offsets != theirs.offsets:
                yield from ((partition, offset) for offset in sorted({*ours.offsets}.difference(theirs.offsets)))

    def difference(self, other: Trail, *, beside: Callable[[int, int], bool] | None = None) -> str | None:
        """Where the two begin to differ; None: they saw the same. beside: of a partition and an offset that only one of
        them saw, whether that is no difference."""
        left_out: defaultdict[int, set[int]] = defaultdict(set)
        for partition, offset in (*self.beyond(other), *other.beyond(self)):
            if beside is not None and beside(partition, offset):
                left_out[partition].add(offset)
        for partition in sorted(self._partitions.keys() | other._partitions.keys()):
            ours, theirs = self._partitions[partition], other._partitions[partition]
            if (ours.offsets, ours.digests) == (theirs.offsets, theirs.digests):
                continue
            without = left_out[partition]
            for mine, yours in zip_longest(ours.without(without), theirs.without(without)):
                if mine != yours:
                    first = min(seen[0] for seen in (mine, yours) if seen is not None)
                    return (
                        f"partition {partition} from offset {first} on: one reader saw {len(ours.offsets)} records of "
                        f"it, the other {len(theirs.offsets)}"
                    )
        return None
