"""The samples of a run for charts: one a second for an hour, and the extremes of each minute after that."""

from __future__ import annotations

from datetime import datetime

import msgspec


class RunPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest and the highest rates of runs in `step_s` seconds from `at` on: of each pipeline, added up.

    Between two seconds of different pipelines the sum is a bound: their peaks may not be of the same second.
    """

    at: datetime
    in_low: float
    in_high: float
    out_low: float
    out_high: float
    aborts: float


class RunRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of a pipeline's group, by the first task of a run that was assigned partitions in it."""

    at: datetime
    generation: int
    tasks: int


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
