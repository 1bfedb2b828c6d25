"""Which zombie meets which successors, frozen where, and woken when."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from tests.fault_suite.freeze_points import Point


class Mode(StrEnum):
    """The mode of an instance, at each end of a migration and between its bounces."""

    GROUP_ONLY = "exactly_once, group_only"
    GENERATION = "exactly_once, generation"
    V2 = "exactly_once_v2"

    @property
    def settings(self) -> dict[str, Any]:
        """Fields of a definition."""
        match self:
            case Mode.GROUP_ONLY:
                return {
                    "processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE,
                    "offset_fencing": OffsetFencing.GROUP_ONLY,
                }
            case Mode.GENERATION:
                return {
                    "processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE,
                    "offset_fencing": OffsetFencing.GENERATION,
                }
            case Mode.V2:
                return {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE_V2}


class Direction(StrEnum):
    ONE_STEP = "in one step"
    FORWARD = "forward"
    BACK = "back"


class Move(StrEnum):
    ONE_STEP = "the switch in one step"
    BEFORE = "before the first bounce"
    FIRST = "first bounce"
    SECOND = "second bounce"
    BOTH = "both bounces, woken after the second"
    BACK_FIRST = "back, first bounce"
    BACK_SECOND = "back, second bounce"
    BACK_BOTH = "back, both bounces, woken after the second"

    @property
    def zombie(self) -> Mode:
        return _MOVES[self][1][0]

    @property
    def takers(self) -> tuple[Mode, ...]:
        """The successors, one after the other."""
        return _MOVES[self][1][1:]

    @property
    def direction(self) -> Direction:
        return _MOVES[self][0]

    @property
    def protocols(self) -> tuple[GroupProtocol, ...]:
        """Those before KIP-447 have classic groups alone."""
        return (GroupProtocol.CLASSIC,) if Mode.GROUP_ONLY in _MOVES[self][1] else tuple(GroupProtocol)


_MOVES: dict[Move, tuple[Direction, tuple[Mode, ...]]] = {
    Move.ONE_STEP: (Direction.ONE_STEP, (Mode.GROUP_ONLY, Mode.V2)),
    Move.BEFORE: (Direction.FORWARD, (Mode.GROUP_ONLY, Mode.GROUP_ONLY)),
    Move.FIRST: (Direction.FORWARD, (Mode.GROUP_ONLY, Mode.GENERATION)),
    Move.SECOND: (Direction.FORWARD, (Mode.GENERATION, Mode.V2)),
    Move.BOTH: (Direction.FORWARD, (Mode.GROUP_ONLY, Mode.GENERATION, Mode.V2)),
    Move.BACK_FIRST: (Direction.BACK, (Mode.V2, Mode.GENERATION)),
    Move.BACK_SECOND: (Direction.BACK, (Mode.GENERATION, Mode.GROUP_ONLY)),
    Move.BACK_BOTH: (Direction.BACK, (Mode.V2, Mode.GENERATION, Mode.GROUP_ONLY)),
}


class Wake(StrEnum):
    BEFORE = "before the transaction timeout"
    AFTER = "after the transaction timeout"


class Case(NamedTuple):
    move: Move
    point: Point
    wake: Wake
    protocol: GroupProtocol

    def __str__(self) -> str:
        return f"{self.move}; {self.point}; woken {self.wake}; {self.protocol} group"


MUST_DOUBLE = {
    (Point.BEFORE_FIRST_OUTPUT, Wake.BEFORE),
    (Point.BEFORE_FIRST_OUTPUT, Wake.AFTER),
    (Point.AFTER_OUTPUTS, Wake.BEFORE),
}
"""The cases of the switch in one step where two clients alone duplicated records too. The others are shown as found."""


def every_case() -> Iterator[Case]:
    for move in Move:
        for protocol in move.protocols:
            for point in Point:
                for wake in Wake:
                    yield Case(move, point, wake, protocol)


def must_double(case: Case) -> bool:
    return case.move is Move.ONE_STEP and (case.point, case.wake) in MUST_DOUBLE


def must_be_exact(case: Case) -> bool:
    return case.move is not Move.ONE_STEP
