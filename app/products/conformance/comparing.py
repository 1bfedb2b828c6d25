"""Compare the records that a consumer got with the expected ones, partition by partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.products.conformance.report import ConformanceFinding, broken, kept

_NAMED = 5


class SeenRecord(NamedTuple):
    """A record as a consumer got it."""

    partition: int
    offset: int
    value: str


def judge(seen: Sequence[SeenRecord], expected: Mapping[int, Sequence[str]], said: str) -> ConformanceFinding:
    """Return kept, with `said`, if each partition returned these values in this order; else broken."""
    found = [
        f"partition {partition}: {what}"
        for partition in sorted({*expected, *(record.partition for record in seen)})
        if (what := difference(values_of(seen, partition), expected.get(partition, ())))
    ]
    return broken("; ".join(found)) if found else kept(said)


def difference(seen: Sequence[str], expected: Sequence[str]) -> str:
    """Describe missing, duplicated, unexpected and misordered values; empty when both are the same."""
    if list(seen) == list(expected):
        return ""
    times, wanted = Counter(seen), Counter(expected)
    parts = [
        f"{kind} {named(values)}"
        for kind, values in (
            ("not returned:", [value for value in wanted if times[value] < wanted[value]]),
            ("returned more than once:", [value for value in wanted if times[value] > wanted[value]]),
            ("unexpected:", [value for value in times if value not in wanted]),
        )
        if values
    ]
    return "; ".join(parts) or f"returned in the order {named(seen)}, written in the order {named(expected)}"


def named(values: Sequence[str]) -> str:
    """Name the first few, and count the others."""
    more = len(values) - _NAMED
    return ", ".join(values[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def values_of(seen: Sequence[SeenRecord], partition: int) -> list[str]:
    return [record.value for record in seen if record.partition == partition]
