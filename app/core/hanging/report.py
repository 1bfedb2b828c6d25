"""The state of the search for hanging transactions on one cluster, and its results."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.hanging.hanging_transaction import HangingTransaction
from app.core.hanging.search import UnclearPartition
from app.kit.storable import moment_of_ms
from app.kit.words import duration

UNCLEAR_SHOWN = 100
OVERDUE_AFTER_MS = 60_000
"""Long enough for a sweep with late answers; each failure of it is a problem of its own."""


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """problem: the search's own report of its failure; `problem_at` is for display. `silent`: brokers and topics that
    did not answer. sweep_every_ms: the interval of sweeps over all partitions.

    swept_ms: the end of the last sweep (by the server's clock), -1: none yet. sweep_took_ms: its duration. held_back:
    blocked partitions, mostly by live transactions. unclear: of those that cannot be verified, the longest
    UNCLEAR_SHOWN. asked: the number of requests to leaders about open transactions.
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
    unclear: tuple[UnclearPartition, ...] = ()
    unclear_count: int = 0
    hanging: tuple[HangingTransaction, ...] = ()

    def problem_at(self, now_ms: int) -> str:
        """Return the reason for which the search does not work; empty if it works. A search that is stuck reports
        nothing, and is overdue.
        """
        overdue_ms = now_ms - self.swept_ms - self.sweep_every_ms - 2 * self.sweep_took_ms
        if self.problem or self.swept_ms < 0 or overdue_ms < OVERDUE_AFTER_MS:
            return self.problem
        return (
            f"the last sweep of all partitions ended {duration(now_ms - self.swept_ms)} ago, without a reported error"
        )

    def warning(self, now_ms: int) -> str:
        """Return the limits of the results, as a sentence; empty for a complete search."""
        if problem := self.problem_at(now_ms):
            return f"The search for hanging transactions does not work: {problem}."
        if self.swept_ms < 0:
            return "The search for hanging transactions has not checked all partitions yet."
        if self.unclear:
            first = self.unclear[0]
            more = f" and {self.unclear_count - 1} more" if self.unclear_count > 1 else ""
            where = f"{first.topic}-{first.partition}{more}"
            return f"It cannot be verified whether a transaction hangs in {where}: {first.reason}."
        return f"Hanging transactions may be missing: {'; '.join(self.silent)}." if self.silent else ""

    @property
    def shown(self) -> tuple[object, ...]:
        """The values whose change refreshes a page."""
        what = tuple((one.key, one.transactional_id, one.is_corroborated) for one in self.hanging)
        return what, self.problem, self.silent, tuple((one.topic, one.partition, one.reason) for one in self.unclear)


class HangingLine(msgspec.Struct, frozen=True, kw_only=True):
    """cluster: the registered name of its Kafka cluster."""

    cluster: str
    transaction: HangingTransaction

    @property
    def found_at(self) -> datetime:
        return moment_of_ms(self.transaction.found_ms)
