"""How many records a checkpoint may hold where the output side is slow, and since when nothing could be committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from confluent_kafka import KafkaError

from workers.loop.group.ownership import Partition
from workers.loop.records.trials import MAX_CHECKPOINT_RECORDS, UNLIMITED

STILL_AFTER_TIMEOUTS = 3
"""A lane that has committed nothing for so many of its bounds does not progress."""
_SHRINK = 8
_GROWTH = 2
_QUICK = 1 / 4
"""Of a transaction timeout: a checkpoint that took no longer may be followed by a larger one."""
_LATE = 1 / 2
"""And one that failed after so much of it has probably failed for that."""
_TIMED_OUT = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._INCONSISTENT}  # noqa: SLF001
)


class CheckpointSize:
    """Of one lane. A checkpoint that timed out is tried again smaller, down to one record; quick ones grow again.

    A transaction that cannot end within its timeout is aborted, and all of it is sent again. At the same size it would
    time out for ever.

    Args:
        timeout_s: how long a transaction may be open.
        bound_s: how long a checkpoint may take to end: the uploads before a transaction are part of it.
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
        """For how long nothing could be committed; None: for no longer than is usual."""
        lasts_s = 0.0 if self._in_vain_since is None else self._clock() - self._in_vain_since
        return lasts_s if lasts_s >= self._still_after_s else None

    def failed(self, partitions: Collection[Partition], *, opened_at: float) -> None:
        """A checkpoint was not committed. partitions: those of it that are still owned."""
        self._in_vain.update(partitions)
        if self._in_vain_since is None and partitions:
            self._in_vain_since = opened_at

    def retain(self, owned: Collection[Partition]) -> None:
        """The task owns these now. Where nothing is left of what could not be committed, nothing is wanted of it."""
        self._in_vain.intersection_update(owned)
        if not self._in_vain:
            self._in_vain_since = None

    def is_too_slow(self, code: int | None, *, transaction_opened_at: float | None) -> bool:
        """Whether time was what a checkpoint that failed did not have enough of."""
        open_s = 0.0 if transaction_opened_at is None else self._clock() - transaction_opened_at
        return code in _TIMED_OUT or open_s >= _LATE * self._timeout_s

    def shrink(self, records: int, *, delivered: float) -> None:
        """A checkpoint of so many records was too slow. delivered: the part of its outputs that was taken in time."""
        if records > 0:
            by_delivery = int(records * delivered / 2)
            self.limit = max(1, min(records // 2, max(records // _SHRINK, by_delivery)))

    def committed(self, *, seconds: float) -> None:
        """The brokers have committed a checkpoint, which took so long."""
        self.retain(())
        if self.is_limited and seconds <= _QUICK * self._timeout_s:
            grown = self.limit * _GROWTH
            self.limit = UNLIMITED if grown >= MAX_CHECKPOINT_RECORDS else grown
