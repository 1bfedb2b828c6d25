"""Count the transactions that began and ended in each second, by the coordinators' own clock, for a chart.

The order in which partitions are read does not matter: the records' times determine the second.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from app.core.journals.transaction_state import OPEN, TransactionState, TransactionStatus

KEPT_SECONDS = 3_700
"""An hour, and a chart's first bucket."""
_NEVER_MS = 1 << 60
# An enum's own members are slow to look up, and this is used for every record.
_ONGOING = TransactionStatus.ONGOING
_COMPLETE_COMMIT = TransactionStatus.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionStatus.COMPLETE_ABORT


class PaceSample(NamedTuple):
    """One second. open: at its end; oldest_ms: the age of the oldest of these, 0 where there are none."""

    second: int
    open: int
    commits: int
    aborts: int
    oldest_ms: int = 0


class TransactionPace(msgspec.Struct):
    """Counts by second, of at least the newest KEPT_SECONDS with events.

    balance: transactions begun less those ended. began_ms: the earliest begin of those that ended. since_s: from there
    on the counts are complete; -1: nothing was noted.
    """

    balance: dict[int, int] = {}
    commits: dict[int, int] = {}
    aborts: dict[int, int] = {}
    since_s: int = -1
    floor_s: int = -1
    began_ms: dict[int, int] = {}

    def note(self, before: TransactionState | None, state: TransactionState, timestamp_ms: int) -> None:
        """Note a record. If the journal no longer has a transaction's begin, the record's start time counts."""
        status = state.status
        if before is not None and before.status is _ONGOING and status in OPEN:
            # Most records by far: one more partition, or a decision without its markers.
            return
        was_open = before is not None and before.status in OPEN
        is_open = status in OPEN
        second = timestamp_ms // 1000
        if second >= self.floor_s and (self.since_s < 0 or second < self.since_s):
            self.since_s = second
        if is_open and not was_open:
            began_ms = state.start_ms if before is None and state.start_ms >= 0 else timestamp_ms
            self._add(self.balance, began_ms // 1000, 1)
        elif was_open and not is_open:
            self._add(self.balance, second, -1)
            if before is not None and before.start_ms >= 0:
                self._began(second, before.start_ms)
        if status is _COMPLETE_COMMIT:
            self._add(self.commits, second, 1)
        elif status is _COMPLETE_ABORT:
            self._add(self.aborts, second, 1)

    def begin_anew(self) -> None:
        """Some counted records will be read again: earlier seconds are dropped permanently."""
        self.floor_s = max((*self.balance, *self.commits, *self.aborts, self.floor_s - 1)) + 1
        self.balance, self.commits, self.aborts, self.began_ms = {}, {}, {}, {}
        self.since_s = self.floor_s if self.floor_s > 0 else -1

    def copy(self) -> TransactionPace:
        counts = (self.balance.copy(), self.commits.copy(), self.aborts.copy())
        return TransactionPace(*counts, self.since_s, self.floor_s, self.began_ms.copy())

    @property
    def kept_since_s(self) -> int:
        """The first second with complete counts; -1: nothing was noted. Older counts of a busy cluster are dropped."""
        dropped = [min(one) for one in (self.balance, self.commits, self.aborts) if len(one) >= KEPT_SECONDS]
        return max(self.since_s, *dropped) if dropped else self.since_s

    def samples(
        self, *, open_now: int, oldest_start_ms: int | None = None, first_s: int, last_s: int
    ) -> list[PaceSample]:
        """Return every known second from `first_s` to `last_s`.

        open_now, oldest_start_ms: the number of open ones, and the begin of the oldest.
        """
        if self.since_s < 0:
            return []
        still_open = open_now - sum(change for second, change in self.balance.items() if second > last_s)
        ended_later = [began for second, began in self.began_ms.items() if second > last_s]
        oldest_ms = min(ended_later, default=_NEVER_MS)
        if oldest_start_ms is not None:
            oldest_ms = min(oldest_ms, oldest_start_ms)
        found: list[PaceSample] = []
        for second in range(last_s, max(first_s, self.kept_since_s) - 1, -1):
            # More ends than begins are no transactions: compaction removed some of the begins.
            shown = max(0, still_open)
            commits, aborts = self.commits.get(second, 0), self.aborts.get(second, 0)
            # At the second's end; a transaction with an earlier begin and a later end was open then.
            age_ms = max(0, (second + 1) * 1000 - oldest_ms)
            found.append(PaceSample(second, shown, commits, aborts, age_ms))
            oldest_ms = min(oldest_ms, self.began_ms.get(second, _NEVER_MS))
            still_open -= self.balance.get(second, 0)
        return found[::-1]

    def _began(self, second: int, began_ms: int) -> None:
        if second < self.floor_s or began_ms >= self.began_ms.get(second, _NEVER_MS):
            return
        self.began_ms[second] = began_ms
        _keep_newest(self.began_ms)

    def _add(self, counts: dict[int, int], second: int, by: int) -> None:
        if second < self.floor_s:
            return
        counts[second] = counts.get(second, 0) + by
        _keep_newest(counts)


def _keep_newest(by_second: dict[int, int]) -> None:
    if len(by_second) > 2 * KEPT_SECONDS:
        # Many at once: for a journal of months this is faster than one by one.
        for old in sorted(by_second)[:-KEPT_SECONDS]:
            del by_second[old]
