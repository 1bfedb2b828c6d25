"""Which contradictions are kept: a loop that is wrong at every checkpoint finds thousands an hour, for weeks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.products.offset_log.check import Finding
from app.products.offset_log.verdict import Kind

MOST_FINDINGS = 200
"""Of one partition: the first that were found, and the last one, which tells how far it goes and since when not."""

Place = tuple[str, str, int]
"""Group, topic, partition."""


class Known(NamedTuple):
    """What is kept of one partition: of each contradiction its kind and where it begins; `last`: of the newest."""

    keys: frozenset[tuple[Kind, int]] = frozenset()
    last: tuple[Kind, int] | None = None


class Keeping(NamedTuple):
    """first: to be added. instead: to be added, each for the newest of its partition, which goes."""

    first: list[Finding]
    instead: list[Finding]


def keeping(found: Iterable[Finding], known: Mapping[Place, Known]) -> Keeping:
    """What to keep of what was found beside what is known."""
    new: dict[Place, dict[tuple[Kind, int], Finding]] = {}
    for one in found:
        place = one.group, one.topic, one.partition
        if (one.kind, one.start) not in known.get(place, Known()).keys:
            new.setdefault(place, {}).setdefault((one.kind, one.start), one)
    result = Keeping([], [])
    for place, of_place in sorted(new.items()):
        kept = known.get(place, Known())
        ordered = sorted(of_place.values(), key=lambda one: (one.start, one.kind))
        room = max(0, MOST_FINDINGS - len(kept.keys))
        result.first.extend(ordered[:room])
        # What was passed over before is found again at every check: only what lies behind the newest is newer.
        if room == 0 and kept.last is not None and ordered[-1].start > kept.last[1]:
            result.instead.append(ordered[-1])
    return result
