"""The samples of a run for charts: one a second for an hour, one a minute after that."""

from __future__ import annotations

from datetime import datetime

import msgspec


class RunSample(msgspec.Struct, frozen=True, kw_only=True):
    """The sum over a run's tasks at one moment. Rates are per second; `lag_records` is None while no end is known."""

    at: datetime
    records_in_per_s: float
    records_out_per_s: float
    commits_per_s: float
    aborts_per_s: float
    commit_latency_p99_ms: float | None = None
    lag_records: int | None = None


class RunTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a run, over all attempts of all its tasks."""

    records_in: int = 0
    records_out: int = 0
    records_skipped: int = 0
    records_dead_lettered: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    transactions_unknown: int = 0
    fencings: int = 0
