"""Ranges of one partition's offsets, and the holes between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class OffsetStretch(NamedTuple):
    """The offsets from `start` up to and excluding `end`; None: without an end."""

    start: int
    end: int | None

    def meets(self, other: OffsetStretch) -> bool:
        """Return true if both have an offset in common."""
        return (self.end is None or other.start < self.end) and (other.end is None or self.start < other.end)


def holes(covered: Iterable[tuple[int, int]]) -> list[OffsetStretch]:
    """Return the ranges between the first and the last offset that no range covers.

    An empty range covers nothing, but extends the first or the last offset.
    """
    found: list[OffsetStretch] = []
    reached: int | None = None
    for start, end in sorted(covered):
        if reached is not None and start > reached:
            found.append(OffsetStretch(reached, start))
        reached = end if reached is None else max(reached, end)
    return found
