"""The size and wait of a poll, and the time of a commit: early when idle, in large steps with lag."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from workers.loop.records.batching import BatchSize
from workers.loop.records.trials import UNLIMITED

_IDLE_S = 0.1
_LONGEST_S = 0.2
_MARKERS_S = 0.01


class Poll(NamedTuple):
    """The number of records to request, and the wait for them. is_ahead: they are not of the open checkpoint."""

    records: int
    wait_s: float
    is_ahead: bool = False


class Pace:
    """The pace of one task, for all its lanes. `opened_at`: the opening of the oldest checkpoint; None: none is open.

    nothing open, idle          the first record is enough: it opens a checkpoint, whose interval begins
    nothing open, just          batches for 10 ms, and the interval counts them: while the markers of the transaction
    committed                   before are being written the coordinator refuses the next one's first request, and the
                                client asks again 20 ms later. A full batch does not wait
    open                        batches, until the interval is over
    due, with lag               polls bring as many records as were requested: several batches at once, for the
                                checkpoint after this one. While they are made ready for Python the outputs of this
                                one are on their way, and its commit has less to wait for
    """

    def __init__(self, *, interval_s: float, batch_size: BatchSize, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._batch_size = batch_size
        self._clock = clock
        self._is_behind = False
        self._is_limited = False
        self._committed_at = float("-inf")
        self._gathered_since: float | None = None
        self._asked = Poll(0, 0.0)

    @property
    def is_ahead(self) -> bool:
        """True if the last poll was made after the open checkpoint was due, for the next one."""
        return self._asked.is_ahead

    def next_poll(self, opened_at: float | None, *, limit: int, most: int = sys.maxsize) -> Poll:
        """limit: the most records that a checkpoint may hold now. most: the most that one poll may return."""
        if opened_at is None:
            self._gathered_since = None
        self._is_limited = limit != UNLIMITED
        asked = self._poll(opened_at, limit)
        self._asked = asked._replace(records=min(asked.records, most))
        return self._asked

    def polled(self, records: int) -> None:
        """Record the number of records that the poll returned."""
        # One record of one requested shows nothing. Where checkpoints may hold few, none is polled ahead, and so none
        # waits for such a poll.
        self._is_behind = not self._is_limited and 1 < self._batch_size.count <= records

    def is_due(self, opened_at: float) -> bool:
        """True if it is time to commit; a task with lag polls once more before."""
        return self._left_s(opened_at) <= 0 and (self._asked.is_ahead or not self._is_behind)

    def committed(self) -> None:
        """Record the commit of due checkpoints; records polled ahead of it belong to the next checkpoint."""
        self._committed_at = self._clock()
        self._gathered_since = None
        self._asked = self._asked._replace(is_ahead=False)

    def _poll(self, opened_at: float | None, limit: int) -> Poll:
        count = self._batch_size.count
        if limit != UNLIMITED:
            wait_s = _IDLE_S if opened_at is None else min(_IDLE_S, max(0.0, self._left_s(opened_at)))
            return Poll(min(limit, count), wait_s)
        if opened_at is None:
            left_s = self._committed_at + min(_MARKERS_S, self._interval_s) - self._clock()
            if left_s <= 0:
                return Poll(1, _IDLE_S)
            self._gathered_since = self._committed_at
            return Poll(count, left_s)
        left_s = self._left_s(opened_at)
        if left_s <= 0 and self._is_behind:
            return Poll(self._batch_size.ahead, 0.0, is_ahead=True)
        return Poll(count, min(_LONGEST_S, max(0.0, left_s)))

    def _left_s(self, opened_at: float) -> float:
        since = opened_at if self._gathered_since is None else self._gathered_since
        return since + self._interval_s - self._clock()
