"""Which faults a run does, drawn from its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import count
from typing import NamedTuple, TypeVar

from tests.fault_suite.freeze_points import Point

T = TypeVar("T")

_GAP_S = (1.0, 5.0)
_HUNDREDTHS = 2


class Kind(StrEnum):
    """What is done, and in the table below for how many seconds; 0: it is over at once."""

    WORKER_KILLED = "worker killed"
    WORKER_TERMINATED = "worker terminated"
    WORKER_FROZEN = "worker frozen"
    WORKER_REPLACED = "worker replaced while frozen"
    BROKER_KILLED = "broker killed"
    BROKER_PAUSED = "broker paused"
    CONNECTIONS_CUT = "connections cut"
    BROKER_UNREACHABLE = "broker unreachable"
    STALLED_TO_BROKER = "stalled to broker"
    STALLED_TO_CLIENT = "stalled to client"
    SLOW = "slow"
    DELAYED = "delayed"
    COMMIT_REQUEST_LOST = "commit request lost"
    COMMIT_ANSWER_LOST = "commit answer lost"


FREEZING = (Kind.WORKER_FROZEN, Kind.WORKER_REPLACED)

# Past the session timeout of the suite's pipelines (4 s) and past their transaction timeout (10 s), and before either.
LASTS_S: dict[Kind, tuple[float, float]] = {
    Kind.WORKER_KILLED: (0, 0),
    Kind.WORKER_TERMINATED: (0, 0),
    Kind.WORKER_FROZEN: (1, 14),
    Kind.WORKER_REPLACED: (1, 14),
    Kind.BROKER_KILLED: (0, 3),
    Kind.BROKER_PAUSED: (1, 8),
    Kind.CONNECTIONS_CUT: (0, 0),
    Kind.BROKER_UNREACHABLE: (1, 14),
    Kind.STALLED_TO_BROKER: (1, 14),
    Kind.STALLED_TO_CLIENT: (1, 14),
    Kind.SLOW: (2, 8),
    Kind.DELAYED: (2, 8),
    Kind.COMMIT_REQUEST_LOST: (0, 3),
    Kind.COMMIT_ANSWER_LOST: (0, 3),
}


class Fault(NamedTuple):
    """The `number`-th of a run.

    gap_s: from the end of the one before. which: from 0 to 1, whom it hits, of as many as there are then. point: where
    a worker is frozen; None: wherever it is.
    """

    number: int
    kind: Kind
    gap_s: float
    lasts_s: float
    which: float
    point: Point | None

    def of(self, those: Sequence[int]) -> int:
        """Whom of those that there are."""
        return those[int(self.which * len(those))]


def faults(seed: int, kinds: Sequence[Kind] = tuple(Kind)) -> Iterator[Fault]:
    """Without end. The n-th depends on seed and kinds alone: neither on the machine, nor on how the others went.

    Each kind comes once in as many faults as there are kinds, so that a short run has met every one; the places at
    which workers are frozen likewise.
    """
    points: Sequence[Point | None] = (None, *Point)
    at_points = _in_turns(seed, "points", points)
    for number, kind in zip(count(), _in_turns(seed, "kinds", tuple(kinds)), strict=False):
        rng = random.Random(f"{seed}/{number}")
        yield Fault(
            number=number,
            kind=kind,
            gap_s=round(rng.uniform(*_GAP_S), _HUNDREDTHS),
            lasts_s=round(rng.uniform(*LASTS_S[kind]), _HUNDREDTHS),
            which=rng.random(),
            point=next(at_points) if kind in FREEZING else None,
        )


def _in_turns(seed: int, name: str, those: Sequence[T]) -> Iterator[T]:
    for turn in count():
        yield from random.Random(f"{seed}/{name}/{turn}").sample(those, len(those))
