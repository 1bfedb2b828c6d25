"""How the search for hanging transactions of one cluster is, and what it has found."""

from __future__ import annotations

import msgspec

from app.core.hanging.hanging_transaction import HangingTransaction
from app.core.hanging.search import Unclear
from app.kit.words import duration

UNCLEAR_SHOWN = 100
OVERDUE_AFTER_MS = 60_000
"""Long enough for a sweep whose brokers answer late, each of whose failures is a problem of its own."""


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """problem: what the search itself says of why nothing is searched now; `problem_at` is what to show.
    silent: brokers and topics that told nothing. sweep_every_ms: how often all partitions are to be asked about.

    swept_ms: when all partitions had been asked about last (our clock), -1: not yet. sweep_took_ms: from the first to
    the last of them. held_back: partitions whose readers wait now, mostly for transactions that are well. unclear: the
    longest UNCLEAR_SHOWN of those that nobody can tell of. asked: questions to leaders about open transactions, in all.
    """

    cluster: str
    problem: str = ""
    sweep_every_ms: int = 0
    swept_ms: int = -1
    sweep_took_ms: int = 0
    partitions: int = 0
    held_back: int = 0
    asked: int = 0
    silent: tuple[str, ...] = ()
    unclear: tuple[Unclear, ...] = ()
    unclear_count: int = 0
    hanging: tuple[HangingTransaction, ...] = ()

    def problem_at(self, now_ms: int) -> str:
        """Why nothing is searched now; empty when all is well. A search that got stuck says nothing, and is overdue."""
        overdue_ms = now_ms - self.swept_ms - self.sweep_every_ms - 2 * self.sweep_took_ms
        if self.problem or self.swept_ms < 0 or overdue_ms < OVERDUE_AFTER_MS:
            return self.problem
        age = duration(now_ms - self.swept_ms)
        return f"all partitions were asked about last {age} ago, and nothing says why not since"

    def warning(self, now_ms: int) -> str:
        """What cannot be told of hanging transactions, as a sentence; empty when all is told."""
        if problem := self.problem_at(now_ms):
            return f"Hanging transactions are not searched for now: {problem}."
        if self.swept_ms < 0:
            return "Hanging transactions are being searched for: not all partitions have been asked about yet."
        if self.unclear:
            first = self.unclear[0]
            more = f" and {self.unclear_count - 1} more" if self.unclear_count > 1 else ""
            where = f"{first.topic}-{first.partition}{more}"
            return f"Whether a transaction hangs in {where} cannot be told: {first.reason}."
        return f"Hanging transactions may be missing: {'; '.join(self.silent)}." if self.silent else ""

    @property
    def shown(self) -> tuple[object, ...]:
        """What is worth a new look of a page when it changes."""
        what = tuple((one.key, one.transactional_id, one.is_corroborated) for one in self.hanging)
        return what, self.problem, self.silent, tuple((one.topic, one.partition, one.reason) for one in self.unclear)
