"""Stretches of one partition's offsets, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Stretch(NamedTuple):
    """From `start` up to, not including, `end`. None as an end: however far."""

    start: int
    end: int | None

    def meets(self, other: Stretch) -> bool:
        """True if an offset lies in both."""
        return (self.end is None or other.start < self.end) and (other.end is None or self.start < other.end)


def holes(covered: Iterable[tuple[int, int]]) -> list[Stretch]:
    """What lies between the first and the last offset of all of them and in none; an empty one covers nothing, but is a
    place that was reached."""
    found: list[Stretch] = []
    reached: int | None = None
    for start, end in sorted(covered):
        if reached is not None and start > reached:
            found.append(Stretch(reached, start))
        reached = end if reached is None else max(reached, end)
    return found
