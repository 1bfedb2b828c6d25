"""How the search for hanging transactions of one cluster is, and what it has found."""

from __future__ import annotations

import msgspec

from app.domain.hanging.hanging_transaction import HangingTransaction
from app.domain.hanging.search import Unclear

UNCLEAR_SHOWN = 100


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """problem: why nothing is searched now; empty when all is well. silent: brokers and topics that told nothing.

    swept_ms: when all partitions had been asked about last (our clock), -1: not yet. sweep_took_ms: from the first to
    the last of them. held_back: partitions whose readers wait now, mostly for transactions that are well. unclear: the
    longest UNCLEAR_SHOWN of those that nobody can tell of. asked: questions to leaders about open transactions, in all.
    """

    cluster: str
    problem: str = ""
    swept_ms: int = -1
    sweep_took_ms: int = 0
    partitions: int = 0
    held_back: int = 0
    asked: int = 0
    silent: tuple[str, ...] = ()
    unclear: tuple[Unclear, ...] = ()
    unclear_count: int = 0
    hanging: tuple[HangingTransaction, ...] = ()

    @property
    def warning(self) -> str:
        """What cannot be told of hanging transactions, as a sentence; empty when all is told."""
        if self.problem:
            return f"Hanging transactions are not searched for now: {self.problem}."
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
