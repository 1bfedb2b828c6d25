"""The times at which a task's heartbeats report its offsets, and the events that must wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.core.wire.heartbeat import HeartbeatAnswer
from app.core.wire.offset_report import OffsetReport
from workers.loop.telling.offset_recorder import OffsetRecorder

EVERY_S = 5.0
"""The growth of checkpoints is reported so often; a rebalance or an abort with the next heartbeat."""


class OffsetTeller:
    """Repeats events that are not stored, up to the recorder's bound. One thread reports; any may call `answered`."""

    def __init__(self, *, events_per_heartbeat: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.recorder: OffsetRecorder | None = None
        self._limit = events_per_heartbeat
        self._clock = clock
        self._heard_ms: int | None = None
        self._stored_at = float("-inf")
        self._is_kept = False
        self._tells_anew = False
        self._database_epoch: str | None = None

    @property
    def has_more(self) -> bool:
        """True if another heartbeat would have more for a server that stores the events."""
        return self._tells_anew or (self._is_kept and self.recorder is not None and self.recorder.has_news)

    def report(self, *, is_over: bool) -> OffsetReport | None:
        """The report of the next heartbeat; None: nothing now. `is_over`: the attempt records nothing any more."""
        recorder = self.recorder
        if recorder is None:
            return None
        if not is_over and not recorder.has_news and self._clock() - self._stored_at < EVERY_S:
            return None
        # Read before the events: an event that is not among them had not happened by then.
        heard_ms, database_epoch = self._heard_ms, self._database_epoch
        return OffsetReport(
            heard_ms=heard_ms,
            database_epoch=database_epoch,
            is_over=is_over,
            inits=recorder.inits(),
            partitions=recorder.untold(self._limit),
        )

    def answered(self, report: OffsetReport | None, answer: HeartbeatAnswer) -> None:
        before, self._database_epoch = self._database_epoch, answer.database_epoch
        if self.recorder is not None and before not in (None, answer.database_epoch):
            self.recorder.server_forgot()
        self._tells_anew = report is not None and report.database_epoch not in (None, answer.database_epoch)
        if answer.answered_ms is not None:
            self._heard_ms = max(answer.answered_ms, self._heard_ms or 0)
        if report is not None and self.recorder is not None:
            self._is_kept = answer.offsets_stored
            if answer.offsets_stored:
                self._stored_at = self._clock()
                self.recorder.stored(report.partitions)
