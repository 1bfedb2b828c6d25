"""The size of a checkpoint where the output side is slow, and the time since the last commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition
from workers.loop.records.trials import MAX_CHECKPOINT_RECORDS, UNLIMITED

STILL_AFTER_TIMEOUTS = 3
"""After so many of its bounds without a commit, a lane does not progress."""
_SHRINK = 8
_GROWTH = 2
_QUICK = 1 / 4
"""The part of a transaction timeout within which a checkpoint must end, so that a larger one may follow."""
_LATE = 1 / 2
"""The part of a transaction timeout after which the failure of a checkpoint is taken for a timeout."""
_TIMED_OUT = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._INCONSISTENT}  # noqa: SLF001
)


class CheckpointSize:
    """The size for one lane. After a timeout checkpoints become smaller, down to one record; quick ones grow again.

    A transaction that cannot end within its timeout is aborted, and all of it is sent again. At the same size it would
    time out for ever.

    Args:
        timeout_s: how long a transaction may be open.
        bound_s: how long a checkpoint may take to end, including the uploads before a transaction.
    """

    def __init__(self, *, timeout_s: float, bound_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = UNLIMITED
        self._timeout_s = timeout_s
        self._still_after_s = STILL_AFTER_TIMEOUTS * bound_s
        self._clock = clock
        self._in_vain_since: float | None = None
        self._in_vain: set[Partition] = set()

    @property
    def is_limited(self) -> bool:
        return self.limit != UNLIMITED

    def is_full(self, records: int) -> bool:
        return self.is_limited and records >= self.limit

    @property
    def still_s(self) -> float | None:
        """The time for which nothing could be committed; None: not longer than usual."""
        lasts_s = 0.0 if self._in_vain_since is None else self._clock() - self._in_vain_since
        return lasts_s if lasts_s >= self._still_after_s else None

    def failed(self, partitions: Collection[Partition], *, opened_at: float) -> None:
        """Record that a checkpoint was not committed. partitions: those of it that are still owned."""
        self._in_vain.update(partitions)
        if self._in_vain_since is None and partitions:
            self._in_vain_since = opened_at

    def retain(self, owned: Collection[Partition]) -> None:
        """Keep these owned partitions. The failure is forgotten when none of its partitions is left."""
        self._in_vain.intersection_update(owned)
        if not self._in_vain:
            self._in_vain_since = None

    def is_too_slow(self, code: int | None, *, transaction_opened_at: float | None) -> bool:
        """True if a checkpoint probably failed because of its duration."""
        open_s = 0.0 if transaction_opened_at is None else self._clock() - transaction_opened_at
        return code in _TIMED_OUT or open_s >= _LATE * self._timeout_s

    def shrink(self, records: int, *, delivered: float) -> None:
        """Reduce the size: a checkpoint of `records` was too slow. delivered: the part of its outputs sent in time."""
        if records > 0:
            by_delivery = int(records * delivered / 2)
            self.limit = max(1, min(records // 2, max(records // _SHRINK, by_delivery)))

    def committed(self, *, seconds: float) -> None:
        """Record that the brokers have committed a checkpoint, which took so long."""
        self.retain(())
        if self.is_limited and seconds <= _QUICK * self._timeout_s:
            grown = self.limit * _GROWTH
            self.limit = UNLIMITED if grown >= MAX_CHECKPOINT_RECORDS else grown
