"""The bound on kept contradictions: a loop that is wrong at every checkpoint causes thousands an hour, for weeks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.products.offset_log.check import OffsetFinding
from app.products.offset_log.verdict import ContradictionKind

MOST_FINDINGS = 200
"""For each partition: the first ones, and the newest one, which shows how far the contradictions reach."""

Place = tuple[str, str, int]
"""Group, topic, partition."""


class KnownPartition(NamedTuple):
    """The kept contradictions of one partition, each as kind and start; `last`: the newest one."""

    keys: frozenset[tuple[ContradictionKind, int]] = frozenset()
    last: tuple[ContradictionKind, int] | None = None


class Keeping(NamedTuple):
    """first: to be added. instead: to be added, each in place of the newest one of its partition."""

    first: list[OffsetFinding]
    instead: list[OffsetFinding]


def keeping(found: Iterable[OffsetFinding], known: Mapping[Place, KnownPartition]) -> Keeping:
    """Select the found contradictions to keep in addition to the known ones."""
    new: dict[Place, dict[tuple[ContradictionKind, int], OffsetFinding]] = {}
    for one in found:
        place = one.group, one.topic, one.partition
        if (one.kind, one.start) not in known.get(place, KnownPartition()).keys:
            new.setdefault(place, {}).setdefault((one.kind, one.start), one)
    result = Keeping([], [])
    for place, of_place in sorted(new.items()):
        kept = known.get(place, KnownPartition())
        ordered = sorted(of_place.values(), key=lambda one: (one.start, one.kind))
        room = max(0, MOST_FINDINGS - len(kept.keys))
        result.first.extend(ordered[:room])
        # Every check finds the skipped ones again: only those at higher offsets than the newest one are newer.
        if room == 0 and kept.last is not None and ordered[-1].start > kept.last[1]:
            result.instead.append(ordered[-1])
    return result
