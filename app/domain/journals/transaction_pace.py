"""How many transactions began and ended in each second, by the coordinators' own clock: what a chart is drawn from.

It does not matter in which order partitions are read, nor when: a second is told by the records' times.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from app.domain.journals.transaction_state import OPEN, TransactionState, TransactionStatus

KEPT_SECONDS = 1_200


class PaceSample(NamedTuple):
    """One second. open: at its end."""

    second: int
    open: int
    commits: int
    aborts: int


class TransactionPace(msgspec.Struct):
    """Counts by second, the newest KEPT_SECONDS of them in which anything happened.

    balance: transactions begun less those ended. since_s: from there on nothing is missing; -1: nothing was noted.
    """

    balance: dict[int, int] = {}
    commits: dict[int, int] = {}
    aborts: dict[int, int] = {}
    since_s: int = -1
    floor_s: int = -1

    def note(self, before: TransactionState | None, state: TransactionState, timestamp_ms: int) -> None:
        """One more record of an id. A transaction whose beginning is not in the journal any more began when it says."""
        was_open = before is not None and before.status in OPEN
        is_open = state.status in OPEN
        second = timestamp_ms // 1000
        if is_open and not was_open:
            began_ms = state.start_ms if before is None and state.start_ms >= 0 else timestamp_ms
            _add(self.balance, began_ms // 1000, 1, self.floor_s)
        elif was_open and not is_open:
            _add(self.balance, second, -1, self.floor_s)
        if state.status is TransactionStatus.COMPLETE_COMMIT:
            _add(self.commits, second, 1, self.floor_s)
        elif state.status is TransactionStatus.COMPLETE_ABORT:
            _add(self.aborts, second, 1, self.floor_s)
        if second >= self.floor_s and (self.since_s < 0 or second < self.since_s):
            self.since_s = second

    def begin_anew(self) -> None:
        """Some of what was counted will be read again: what has happened until now is left out for good."""
        self.floor_s = max((*self.balance, *self.commits, *self.aborts, self.floor_s - 1)) + 1
        self.balance, self.commits, self.aborts = {}, {}, {}
        self.since_s = self.floor_s if self.floor_s > 0 else -1

    def copy(self) -> TransactionPace:
        return TransactionPace(self.balance.copy(), self.commits.copy(), self.aborts.copy(), self.since_s, self.floor_s)

    def samples(self, *, open_now: int, first_s: int, last_s: int) -> list[PaceSample]:
        """Every second from `first_s` on that is known, up to `last_s`; none that would have to be guessed."""
        if self.since_s < 0:
            return []
        still_open = open_now - sum(change for second, change in self.balance.items() if second > last_s)
        found: list[PaceSample] = []
        for second in range(last_s, max(first_s, self.since_s) - 1, -1):
            # More ends than beginnings are no transactions: of what was compacted away, only one of them was read.
            shown = max(0, still_open)
            found.append(PaceSample(second, shown, self.commits.get(second, 0), self.aborts.get(second, 0)))
            still_open -= self.balance.get(second, 0)
        return found[::-1]


def _add(counts: dict[int, int], second: int, by: int, floor_s: int) -> None:
    if second < floor_s:
        return
    counts[second] = counts.get(second, 0) + by
    if len(counts) > KEPT_SECONDS:
        del counts[min(counts)]
