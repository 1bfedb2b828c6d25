"""Attempts with missing events, which may have owned partitions of which they never reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from app.core.wire.offset_events import Teller

Age = tuple[int, int]
"""Run and generation: the later of two owners of one partition has the higher pair."""


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with at least one report.

    is_over, complete_at: as in `heard.py`. first, last: lowest and highest reported generation of its assignments, None
        without one. life: as in offset_events.py.
    """

    teller: Teller
    is_over: bool
    complete_at: datetime | None
    first: int | None
    last: int | None
    life: int = 0


class Silent(NamedTuple):
    """An attempt that may have owned a partition, and committed there, without a report of it.

    since: its newest reported assignment, None without one. until: the first assignment of its successor. The successor
        had the id of both by then, so this attempt committed nothing under a later one. None without a successor.
    """

    teller: Teller
    life: int
    since: Age | None
    until: Age | None

    def may_lie_between(self, before: Age | None, after: Age | None) -> bool:
        """Return true if it may have owned the partition between two owners. None: an owner's age is not known."""
        is_after_both = after is not None and self.since is not None and self.since >= after
        is_before_both = before is not None and self.until is not None and self.until <= before
        return not is_after_both and not is_before_both


def silent(attempted: Iterable[Attempted], *, told: Iterable[Teller], newest_at: datetime | None) -> list[Silent]:
    """Return the attempts that may have owned a partition without a report of it.

    `told`: the attempts that reported it. newest_at: arrival of its newest event.
    """
    every, here = list(attempted), frozenset(told)
    return [
        Silent(one.teller, one.life, _age(one.teller, one.last), _until(one, every))
        for one in every
        if one.teller not in here and not _is_heard_out(one, newest_at)
    ]


def _is_heard_out(one: Attempted, newest_at: datetime | None) -> bool:
    return one.is_over or (newest_at is not None and one.complete_at is not None and one.complete_at >= newest_at)


def _until(one: Attempted, every: Sequence[Attempted]) -> Age | None:
    teller = one.teller
    ages = (
        _age(other.teller, other.first)
        for other in every
        if other.life == one.life
        and (other.teller.ordinal, other.teller.task) == (teller.ordinal, teller.task)
        and _turn(other.teller) > _turn(teller)
    )
    return min((age for age in ages if age is not None), default=None)


def _turn(teller: Teller) -> tuple[int, int, int]:
    """Return the order of one task's attempts."""
    return teller.run, teller.lease, teller.attempt


def _age(teller: Teller, generation: int | None) -> Age | None:
    return None if generation is None else (teller.run, generation)
