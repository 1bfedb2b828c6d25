"""Attempts of which not everything was heard, in partitions of which they never told: they may have had them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from app.core.wire.offset_events import Teller

Age = tuple[int, int]
"""Run and generation: of two owners of one partition the later one has more."""


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of which anything was heard, whatever that was.

    is_over, complete_at: as in heard.py. first, last: generations of its assignments, the lowest and the highest that
        it told of; None: of none. life: as in events.py.
    """

    teller: Teller
    is_over: bool
    complete_at: datetime | None
    first: int | None
    last: int | None
    life: int = 0


class Silent(NamedTuple):
    """An attempt that may have been assigned a partition, and have committed there, without a word of it.

    since: it was still heard of under this one; None: of no assignment. until: its successor had one, and with it the
        id of both, so that it has committed nothing under a later one; None: nothing was heard of a successor.
    """

    teller: Teller
    life: int
    since: Age | None
    until: Age | None

    def may_lie_between(self, before: Age | None, after: Age | None) -> bool:
        """Whether it may have had the partition between two owners; None: how old one is, is not known."""
        is_after_both = after is not None and self.since is not None and self.since >= after
        is_before_both = before is not None and self.until is not None and self.until <= before
        return not is_after_both and not is_before_both


def silent(attempted: Iterable[Attempted], *, told: Iterable[Teller], newest_at: datetime | None) -> list[Silent]:
    """Of a partition that only `told` told of; newest_at: when the newest word of it arrived."""
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
    """Of one task: who comes later has more."""
    return teller.run, teller.lease, teller.attempt


def _age(teller: Teller, generation: int | None) -> Age | None:
    return None if generation is None else (teller.run, generation)
