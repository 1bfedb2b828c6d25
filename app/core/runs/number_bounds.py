"""The bounds of numbers in workers' messages, each declared at its field of the struct.

    pid: Annotated[int, Bound(LARGEST_INDEX)]

A number without a bound raises TypeError at the first message of its kind.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Annotated, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace

LARGEST = 2**63 - 1
LARGEST_INDEX = 2**31 - 1
"""The largest partition, task, attempt, process or generation: Kafka, Spark and Postgres store them in 32 bits."""
LARGEST_EPOCH = 2**15 - 1
LARGEST_LATENCY_MS = 1e12
LONGEST_INTERVAL_MS = 30 * 24 * 3_600_000
LATEST_MS = 253_402_214_400_000
"""The last day of the year 9999, which is the last that a datetime holds."""

Message = TypeVar("Message", bound=msgspec.Struct)


class Bound(NamedTuple):
    """The range of a number. An optional number outside of it is dropped; a required one is moved to the bound.

    `storable` moves larger numbers to LARGEST before, so an optional number is dropped only if `most` is less.

    counted_as: its name in `fenceline_worker_fields_dropped_total`; None: the field's own.
    is_refused: the whole message is refused instead.
    """

    most: float
    least: int = 0
    counted_as: str | None = None
    is_refused: bool = False


Index = Annotated[int, Bound(LARGEST_INDEX)]
MomentMs = Annotated[int, Bound(LATEST_MS)]
Generation = Annotated[int | None, Bound(LARGEST_INDEX, least=-1, counted_as="generation")]
DurationMs = Annotated[int | None, Bound(LATEST_MS)]
LatencyMs = Annotated[float | None, Bound(LARGEST_LATENCY_MS, counted_as="commit_latency")]


class Number(NamedTuple):
    """A number field of a struct."""

    field: str
    bound: Bound
    is_optional: bool


@cache
def numbers_of(struct: type[msgspec.Struct]) -> tuple[Number, ...]:
    """Return the number fields of the struct, but not of nested structs. Raise TypeError for one without a bound."""
    found: list[Number] = []
    for field in msgspec.structs.fields(struct):
        inside, *notes = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
        members = get_args(inside) if get_origin(inside) in (Union, types.UnionType) else (inside,)
        if int not in members and float not in members:
            continue
        bounds = [note for note in notes if isinstance(note, Bound)]
        if not bounds:
            raise TypeError(f"{struct.__name__}.{field.name} is a number without a Bound")
        found.append(Number(field.name, bounds[0], types.NoneType in members))
    return tuple(found)


class Sieve:
    """Passes possible values, and counts by field those that it dropped or moved to a bound."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()

    def bounded(self, message: Message) -> Message:
        """Return the message with each of its own numbers inside its bound; nested structs are unchanged."""
        moved: dict[str, float | None] = {}
        for field, bound, is_optional in numbers_of(type(message)):
            value = getattr(message, field)
            if value is None or bound.least <= value <= bound.most:
                continue
            moved[field] = None if is_optional else min(max(value, bound.least), bound.most)
            # Kafka's clients use -1 for an unknown value.
            is_unknown = is_optional and isinstance(value, int) and value == -1
            self.dropped[bound.counted_as or field] += not is_unknown
        return replace(message, **moved)


def are_storable(numbers: Iterable[int | None], *, least: int = -1) -> bool:
    """Return whether all of them fit into their columns; a larger number was moved to the bound
    (app/kit/storable.py).
    """
    return all(number is None or least <= number < LARGEST for number in numbers)
