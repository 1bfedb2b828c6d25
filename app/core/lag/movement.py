"""The state of a group in one partition, by the movement of its committed offset and of the partition's end."""

from __future__ import annotations

from enum import StrEnum

import msgspec

FIRST_PATIENCE_MS = 300_000
LEAST_PATIENCE_MS = 60_000
MOST_PATIENCE_MS = 3_600_000
LEAST_WINDOW_MS = 60_000
STOOD_STILL_MS = 10_000
"""A last stable offset that does not advance for this time blocks its readers, as in app/core/blocked/readers.py."""
SLOW_FROM_MS = 30_000
_UNKNOWN = -1


class LagState(StrEnum):
    """The state of a group, or of a group in one partition. The first row that applies decides.

    | state | the group in this partition |
    |---|---|
    | UNKNOWN | has lag, and no current answer of the partition's leader |
    | PAUSED | belongs to a pipeline that a user has paused, is draining, or has stopped |
    | HEALTHY | has lag 0, or only markers and aborted records left |
    | BLOCKED | is at the last stable offset, which has not advanced for 10 s, with records behind it |
    | UNKNOWN | was sampled once |
    | NO_MEMBERS | has no members, and has committed nothing for longer than its patience |
    | NOT_READING | has members, and has committed nothing for longer than its patience |
    | SLOW | commits; the least lag of a window has grown twice in a row, and the oldest unread record is 30 s old |
    | HEALTHY | commits, and its lag does not grow |

    Patience: three times the usual time between two commits that advance, from 1 to 60 min; 5 min while that is not
    known. Time without anything to read does not count. So a job that commits once a minute has three minutes.

    Window: 1 min, or twice the usual time between commits if that is longer, with a commit in it. The least lag of a
    window is that just after a commit, so lag that rises and falls between commits is no growth.

    A group without members that goes on to commit (a client that assigns its partitions itself) is judged by movement.
    A group with committed offset beyond the last stable offset reads uncommitted records, and is never BLOCKED.

    A group has the state of its worst partition, in the order of `WORST`. A group without members has NO_MEMBERS even
    with lag 0, once its patience is over.
    """

    HEALTHY = "healthy"
    SLOW = "slow"
    BLOCKED = "blocked"
    PAUSED = "paused"
    NO_MEMBERS = "no members"
    NOT_READING = "not reading"
    UNKNOWN = "not known"


WORST = (
    LagState.BLOCKED,
    LagState.NOT_READING,
    LagState.SLOW,
    LagState.NO_MEMBERS,
    LagState.UNKNOWN,
    LagState.PAUSED,
    LagState.HEALTHY,
)
RANK = {state: rank for rank, state in enumerate(WORST)}


class Movement(msgspec.Struct, array_like=True, gc=False):
    """The movement of a group's committed offset in one partition, sample by sample.

    advanced_ms: when the offset was last seen to change, or first seen. gap_ms: the usual time between two changes
    while records wait, -1 before the second. samples: their number since the last reset; the newest is of `sampled_ms`.
    window_ms: begin of the window; low: the least lag in it so far; lows: of the two windows before, newest last.
    growing_ms: when the lag began to grow from window to window; -1: it does not. rate: records a second that were
    committed in the last whole window, -1 before the first.
    quiet_at: the committed offset from which the log was read last. quiet_end: the end of a range that has only markers
    and aborted records; read_end: of one with others.
    """

    committed: int
    advanced_ms: int
    sampled_ms: int
    gap_ms: int = _UNKNOWN
    samples: int = 1
    window_ms: int = _UNKNOWN
    window_committed: int = 0
    low: int = _UNKNOWN
    last_low: int = _UNKNOWN
    growths: int = 0
    growing_ms: int = _UNKNOWN
    rate: float = -1.0
    quiet_at: int = _UNKNOWN
    quiet_end: int = _UNKNOWN
    read_end: int = _UNKNOWN
    has_advanced: bool = False

    def note(
        self, committed: int, end: int, *, waiting_ms: int, now_ms: int, period_ms: int, has_members: bool
    ) -> None:
        """Add a sample.

        Args:
            end: the high watermark. waiting_ms: when the record at the former committed offset was there; `now_ms` if
                it was not. period_ms: the time between samples of this partition.
        """
        is_continued = self.sampled_ms <= now_ms <= self.sampled_ms + 4 * period_ms
        if now_ms < self.sampled_ms or committed < self.committed:
            # The clock went back, or the offsets were reset to earlier ones: neither shows how fast the group reads.
            self._begin(committed, now_ms)
        elif not is_continued:
            # This server, or the partition's leader, was away: nothing is known of the movement between.
            self._begin(committed, now_ms if committed > self.committed else self.advanced_ms)
        elif committed > self.committed:
            gap_ms = now_ms - max(self.advanced_ms, min(waiting_ms, now_ms))
            # The first change may have begun before the first sample, unless the record came later.
            is_whole = self.has_advanced or waiting_ms > self.advanced_ms
            if is_whole and has_members and gap_ms > 0:
                self.gap_ms = min(MOST_PATIENCE_MS, max(gap_ms, int(self.gap_ms * 0.8)))
            self.has_advanced = True
            self.committed, self.advanced_ms = committed, now_ms
        self.samples += 1
        self.sampled_ms = now_ms
        self._window(max(0, end - committed), now_ms, period_ms)

    def patience_ms(self, period_ms: int) -> int:
        known = FIRST_PATIENCE_MS if self.gap_ms < 0 else min(MOST_PATIENCE_MS, max(LEAST_PATIENCE_MS, 3 * self.gap_ms))
        return max(known, 4 * period_ms)

    def is_quiet(self, end: int) -> bool:
        """Return whether only markers and aborted records are between the committed offset and this end."""
        return self.quiet_end == end and self.quiet_at == self.committed

    def is_read(self, end: int) -> bool:
        """Return whether it is known that records are between the committed offset and this end."""
        return self.read_end == end and self.quiet_at == self.committed

    def note_content(self, end: int, *, is_quiet: bool) -> None:
        """Remember what is between the committed offset and this end."""
        self.quiet_at = self.committed
        self.quiet_end, self.read_end = (end, _UNKNOWN) if is_quiet else (_UNKNOWN, end)

    def moved_to(self, committed: int, now_ms: int) -> Movement:
        """Return the movement with a newer committed offset than that of the last sample."""
        return msgspec.structs.replace(self, committed=committed, advanced_ms=now_ms, samples=self.samples + 1)

    def _begin(self, committed: int, advanced_ms: int) -> None:
        self.committed, self.advanced_ms, self.samples = committed, advanced_ms, 0
        self.has_advanced = False
        self.window_ms = self.low = self.last_low = self.growing_ms = _UNKNOWN
        self.growths, self.rate = 0, -1.0

    def _window(self, lag: int, now_ms: int, period_ms: int) -> None:
        if self.window_ms < 0:
            self.window_ms, self.window_committed, self.low = now_ms, self.committed, lag
            return
        self.low = min(self.low, lag)
        passed_ms = now_ms - self.window_ms
        window_ms = max(LEAST_WINDOW_MS, 2 * self.gap_ms, 4 * period_ms)
        if lag == 0:
            self.growths, self.growing_ms = 0, _UNKNOWN
        if self.committed == self.window_committed:
            # The least lag is that just after a commit, so a window without one has none of its own.
            if passed_ms > self.patience_ms(period_ms) and lag > self.low and self.growing_ms < 0:
                self.growing_ms = self.window_ms
            if passed_ms >= window_ms:
                self.rate = 0.0
                if lag == 0:
                    self.window_ms = now_ms
            return
        if passed_ms < window_ms:
            return
        if 0 <= self.last_low < self.low:
            self.growths += 1
            if self.growing_ms < 0:
                self.growing_ms = self.window_ms
        else:
            self.growths, self.growing_ms = 0, _UNKNOWN
        self.rate = (self.committed - self.window_committed) * 1000 / passed_ms
        self.last_low = self.low
        self.window_ms, self.window_committed, self.low = now_ms, self.committed, lag


class Situation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A partition's answer beside the movement.

    end: the high watermark. blocked_ms: for how long the last stable offset has been below it without advance, or 0.
    waiting_ms: the age of the oldest unread record; 0 if there is none.
    """

    end: int
    last_stable: int
    blocked_ms: int
    waiting_ms: int
    has_members: bool


def judge(moved: Movement, at: Situation, *, now_ms: int, period_ms: int) -> LagState:
    """Return the state of a group in a partition, without PAUSED (see LagState)."""
    lag = max(0, at.end - moved.committed)
    if lag == 0 or moved.is_quiet(at.end):
        return LagState.HEALTHY
    is_at_stable = moved.committed == at.last_stable or moved.is_quiet(at.last_stable)
    if at.last_stable < at.end and is_at_stable and at.blocked_ms >= STOOD_STILL_MS:
        return (
            LagState.BLOCKED if at.has_members or _is_committing(moved, at, now_ms, period_ms) else LagState.NO_MEMBERS
        )
    if moved.samples < 2:
        return LagState.UNKNOWN
    if not _is_committing(moved, at, now_ms, period_ms):
        return LagState.NOT_READING if at.has_members else LagState.NO_MEMBERS
    is_growing = moved.growths >= 2 and moved.has_advanced
    return LagState.SLOW if is_growing and at.waiting_ms >= SLOW_FROM_MS else LagState.HEALTHY


def _is_committing(moved: Movement, at: Situation, now_ms: int, period_ms: int) -> bool:
    still_ms = now_ms - max(moved.advanced_ms, now_ms - at.waiting_ms)
    return still_ms <= moved.patience_ms(period_ms)


def worst_of(states: set[LagState]) -> LagState:
    """Return the state of a group whose partitions have these; UNKNOWN for none of them."""
    return min(states, key=RANK.__getitem__, default=LagState.UNKNOWN)
