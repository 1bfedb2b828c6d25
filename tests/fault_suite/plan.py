"""Which faults a run does, drawn from its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import count
from typing import NamedTuple, TypeVar

from tests.fault_suite.freeze_points import Point

T = TypeVar("T")

_GAP_S = (0.5, 3.0)
_AWAITED = 1 / 3
_HUNDREDTHS = 2


class Kind(StrEnum):
    """The kinds of faults; the table below has their durations."""

    WORKER_KILLED = "worker killed"
    WORKER_TERMINATED = "worker terminated"
    WORKER_FROZEN = "worker frozen"
    WORKER_REPLACED = "worker replaced while frozen"
    WORKER_DOUBLED = "worker doubled"
    INSTANCES_SCALED = "instances scaled"
    PARTITION_ADDED = "partition added"
    BROKER_KILLED = "broker killed"
    BROKER_PAUSED = "broker paused"
    BROKERS_ROLLED = "brokers rolled"
    COORDINATORS_MOVED = "coordinators moved in a commit"
    PREPARED_MOVED = "coordinator moved between prepared and complete"
    CONNECTIONS_CUT = "connections cut"
    BROKER_UNREACHABLE = "broker unreachable"
    STALLED_TO_BROKER = "stalled to broker"
    STALLED_TO_CLIENT = "stalled to client"
    SLOW = "slow"
    DELAYED = "delayed"
    OUTPUT_TOO_SLOW = "output side slower than its timeout"
    COMMIT_REQUEST_LOST = "commit request lost"
    COMMIT_ANSWER_LOST = "commit answer lost"
    EXECUTOR_KILLED = "executor killed"
    EXECUTOR_TERMINATED = "executor terminated"
    EXECUTOR_FROZEN = "executor frozen"
    WORKER_ORPHANED = "worker orphaned"
    DRIVER_KILLED = "driver killed"
    DRIVER_TERMINATED = "driver terminated"
    INSTANCE_KILLED = "instance killed"
    ORDINAL_HELD_TWICE = "ordinal held twice"
    SPARK_WORKER_KILLED = "spark worker killed"
    SPARK_WORKER_TERMINATED = "spark worker terminated"
    SPARK_MASTER_KILLED = "spark master killed"
    SPARK_MASTER_TERMINATED = "spark master terminated"
    SERVER_KILLED = "server killed"
    SERVER_PAUSED = "server paused"
    SERVER_RESTARTED = "server restarted"
    SERVER_SUPERSEDED = "server superseded while paused"
    POSTGRES_KILLED = "postgres killed"
    POSTGRES_PAUSED = "postgres paused"
    POSTGRES_RESTARTED = "postgres restarted"
    DATABASE_RESTORED = "older database restored"
    DISK_FULL = "disk full"
    OFFSETS_DELETED = "offsets deleted"


FREEZING = (Kind.WORKER_FROZEN, Kind.WORKER_REPLACED)
OF_TRANSACTIONS = (
    Kind.COMMIT_REQUEST_LOST,
    Kind.COMMIT_ANSWER_LOST,
    Kind.COORDINATORS_MOVED,
    Kind.PREPARED_MOVED,
)

Range = tuple[float, float]

_AT_ONCE: tuple[Range, ...] = ((0, 0),)
# Before any timeout, and past the session of a classic group (4 s). The last is past that of a KIP-848 group and the
# transaction timeout (10 s each) with the coordinator's next check (1 s).
_BEFORE, _PAST_SESSION, _PAST_ALL = (0.5, 3.0), (4.5, 6.0), (11.5, 14.0)
_PAST_TIMEOUTS: tuple[Range, ...] = (_BEFORE, _BEFORE, _PAST_SESSION, _PAST_ALL)
_STANDS_STILL: tuple[Range, ...] = (_BEFORE, _PAST_SESSION, _PAST_ALL)
LASTS_S: dict[Kind, tuple[Range, ...]] = {
    Kind.WORKER_KILLED: _AT_ONCE,
    Kind.WORKER_TERMINATED: _AT_ONCE,
    Kind.WORKER_FROZEN: _STANDS_STILL,
    Kind.WORKER_REPLACED: _STANDS_STILL,
    Kind.WORKER_DOUBLED: _AT_ONCE,
    Kind.INSTANCES_SCALED: _AT_ONCE,
    Kind.PARTITION_ADDED: _AT_ONCE,
    Kind.BROKER_KILLED: ((0, 3),),
    # Before and past the brokers' own session (6 s).
    Kind.BROKER_PAUSED: ((1, 3), (6.5, 8)),
    Kind.BROKERS_ROLLED: _AT_ONCE,
    # Until the leaders have been moved: only then is the connection cut.
    Kind.COORDINATORS_MOVED: ((5, 8),),
    # Until another leader has been elected.
    Kind.PREPARED_MOVED: _AT_ONCE,
    Kind.CONNECTIONS_CUT: _AT_ONCE,
    Kind.BROKER_UNREACHABLE: _PAST_TIMEOUTS,
    Kind.STALLED_TO_BROKER: _PAST_TIMEOUTS,
    Kind.STALLED_TO_CLIENT: _PAST_TIMEOUTS,
    Kind.SLOW: ((2, 5),),
    Kind.DELAYED: ((2, 5),),
    # Past two transaction timeouts (10 s each): what was too large has been tried again.
    Kind.OUTPUT_TOO_SLOW: ((22, 32),),
    Kind.COMMIT_REQUEST_LOST: ((0, 3),),
    Kind.COMMIT_ANSWER_LOST: ((0, 3),),
    Kind.EXECUTOR_KILLED: _AT_ONCE,
    Kind.EXECUTOR_TERMINATED: _AT_ONCE,
    Kind.EXECUTOR_FROZEN: _PAST_TIMEOUTS,
    Kind.WORKER_ORPHANED: _AT_ONCE,
    Kind.DRIVER_KILLED: _AT_ONCE,
    Kind.DRIVER_TERMINATED: _AT_ONCE,
    Kind.INSTANCE_KILLED: _AT_ONCE,
    # Until its tasks have run for a while.
    Kind.ORDINAL_HELD_TWICE: ((15, 25),),
    Kind.SPARK_WORKER_KILLED: ((0, 5),),
    Kind.SPARK_WORKER_TERMINATED: ((0, 5),),
    Kind.SPARK_MASTER_KILLED: ((0, 5),),
    Kind.SPARK_MASTER_TERMINATED: ((0, 5),),
    # Before and past the heartbeat timeout of the stage's server (4 s), and past its wait until an instance is lost.
    Kind.SERVER_KILLED: ((0, 3), (5, 10)),
    Kind.SERVER_PAUSED: ((1, 3), (5, 10), (15, 20)),
    Kind.SERVER_RESTARTED: ((0, 3),),
    # Once the other one is ready: past the heartbeat timeout, or past its wait until an instance is lost.
    Kind.SERVER_SUPERSEDED: ((5, 8), (12, 15)),
    Kind.POSTGRES_KILLED: ((0, 3), (5, 10)),
    Kind.POSTGRES_PAUSED: ((1, 3), (5, 10), (15, 20)),
    Kind.POSTGRES_RESTARTED: _AT_ONCE,
    Kind.DATABASE_RESTORED: _AT_ONCE,
    # From when a write was refused.
    Kind.DISK_FULL: ((0, 5),),
    Kind.OFFSETS_DELETED: _AT_ONCE,
}
"""For how many seconds: one of these ranges."""


class NotDoneError(Exception):
    """Whom it was to hit had gone by itself meanwhile, or has not felt it: it is not counted, and nothing is wrong."""


class Fault(NamedTuple):
    """The `number`-th of a run.

    gap_s: from the end of the one before. which: from 0 to 1, whom it hits, of as many as there are then. point: where
    a worker is frozen; None: wherever it is. is_awaited: whether nothing else is done before records flow again.
    """

    number: int
    kind: Kind
    gap_s: float
    lasts_s: float
    which: float
    point: Point | None
    is_awaited: bool

    def of(self, those: Sequence[int]) -> int:
        """Whom of those that there are."""
        return those[int(self.which * len(those))]


def faults(seed: int, kinds: Sequence[Kind] = tuple(Kind)) -> Iterator[Fault]:
    """Without end. The n-th depends on seed and kinds alone: neither on the machine, nor on the course of the others.

    Each kind comes once in as many faults as there are kinds, so that a short run has met every one. So do the places
    at which workers are frozen, and at each place the lengths: every step of the loop makes a zombie.
    """
    points: Sequence[Point | None] = (None, *Point)
    at_points = _in_turns(seed, "points", points)
    lengths = {point: _in_turns(seed, f"stands still/{point}", _STANDS_STILL) for point in points}
    for number, kind in zip(count(), _in_turns(seed, "kinds", tuple(kinds)), strict=False):
        rng = random.Random(f"{seed}/{number}")
        point = next(at_points) if kind in FREEZING else None
        gap_s = rng.uniform(*_GAP_S)
        length = next(lengths[point]) if kind in FREEZING else rng.choice(LASTS_S[kind])
        yield Fault(
            number=number,
            kind=kind,
            gap_s=round(gap_s, _HUNDREDTHS),
            lasts_s=round(rng.uniform(*length), _HUNDREDTHS),
            which=rng.random(),
            point=point,
            is_awaited=rng.random() < _AWAITED,
        )


def _in_turns(seed: int, name: str, those: Sequence[T]) -> Iterator[T]:
    for turn in count():
        yield from random.Random(f"{seed}/{name}/{turn}").sample(those, len(those))
