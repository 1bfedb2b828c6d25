"""The number of records in a poll: many, unless they are large or slow to process."""

from __future__ import annotations

MAX_RECORDS = 2_000
MAX_NATIVE_RECORDS = 10_000
"""Records that C holds cost less each, so that a turn of the loop is worth more of them."""
_AHEAD = 8
_FIRST = 16
_TARGET_BYTES = 4 * 1024 * 1024
_GROWTH = 2


class BatchSize:
    """Starts small and grows by a factor of two while batches are quick: the first must not outlast the transaction.

    Args:
        target_s: the longest time for one batch; the commit interval, or a part of the transaction timeout.
        most: the most records of a batch.
    """

    def __init__(self, *, target_s: float, most: int = MAX_RECORDS) -> None:
        self._target_s = target_s
        self._most = most
        self._count = _FIRST
        self._bound = _FIRST

    @property
    def count(self) -> int:
        return self._count

    @property
    def ahead(self) -> int:
        """The number to poll while outputs are on their way: several batches, where records are small and quick.

        Together they have at most the bytes of one batch, and at most its processing time.
        """
        return min(_AHEAD * self._most, max(self._count, self._bound)) if self._count == self._most else self._count

    def processed(self, *, records: int, size_bytes: int, seconds: float) -> None:
        """Learn from a batch that was processed."""
        if records == 0:
            return
        by_bytes = _TARGET_BYTES * records // max(1, size_bytes)
        by_time = int(self._target_s * records / max(seconds, 1e-6))
        self._bound = min(by_bytes, by_time)
        self._count = max(1, min(self._most, self._count * _GROWTH, self._bound))

    def start_over(self) -> None:
        """After a transaction that timed out: nothing is known of the records that follow."""
        self._count = 1
