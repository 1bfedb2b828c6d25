"""Ranges of one partition's offsets, and the holes between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Stretch(NamedTuple):
    """The offsets from `start` up to and excluding `end`; None: without an end."""

    start: int
    end: int | None

    def meets(self, other: Stretch) -> bool:
        """Return true if both have an offset in common."""
        return (self.end is None or other.start < self.end) and (other.end is None or self.start < other.end)


def holes(covered: Iterable[tuple[int, int]]) -> list[Stretch]:
    """Return the ranges between the first and the last offset that no range covers.

    An empty range covers nothing, but extends the first or the last offset.
    """
    found: list[Stretch] = []
    reached: int | None = None
    for start, end in sorted(covered):
        if reached is not None and start > reached:
            found.append(Stretch(reached, start))
        reached = end if reached is None else max(reached, end)
    return found
