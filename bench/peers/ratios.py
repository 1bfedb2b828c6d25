"""The ratio of one system to another, round by round, and the confidence interval of its median."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import msgspec

_DRAWS = 10_000
_SURE = 0.95


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """The median over the rounds, with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Each round of the first by the same round of the second. Raises ValueError when there is none."""
    rounds = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    low, high = interval(rounds)
    return Ratio(
        median=round(statistics.median(rounds), 4),
        low=round(low, 4),
        high=round(high, 4),
        rounds=tuple(round(one, 4) for one in rounds),
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the median, by drawing the values again and again, always with the same seed."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(_DRAWS))
    aside = round(_DRAWS * (1 - _SURE) / 2)
    return medians[aside], medians[-1 - aside]
