"""Which systems meet under which conditions, and what is asked of their ratios."""

from __future__ import annotations

from typing import NamedTuple

from bench.peers.work import Job, Work

V2 = "fenceline exactly_once_v2, spark"


class Goal(NamedTuple):
    """`ours` to `theirs`, at least."""

    row: str
    ours: str
    theirs: str
    at_least: float


class Meeting(NamedTuple):
    """Systems that take turns on one source.

    records_each: of the source, for each second of a round: as many as the fastest takes.
    is_paired: goes on, round by round, until the interval of its ratio is narrow enough.
    """

    name: str
    work: Work
    systems: tuple[str, ...]
    records_each: int
    goals: tuple[Goal, ...] = ()
    is_paired: bool = False


MAIN = Meeting(
    "identity, 100 B, 100 ms",
    Work(),
    (
        V2,
        "kafka streams exactly_once_v2",
        "spark kafka sink",
        "quix streams exactly-once",
        "limit",
        "fenceline exactly_once_v2, bare",
        "fenceline exactly_once, spark",
        "fenceline exactly_once, bare",
        "fenceline at_least_once, bare",
        "kafka streams at_least_once",
        "quix streams at-least-once",
    ),
    1_300_000,
    (
        Goal("exactly_once_v2 in Spark vs Kafka Streams exactly_once_v2", V2, "kafka streams exactly_once_v2", 1.6),
        Goal("exactly_once_v2 in Spark vs Spark's own Kafka sink", V2, "spark kafka sink", 2.8),
        Goal("exactly_once_v2 in Spark vs Quix Streams exactly-once", V2, "quix streams exactly-once", 9.0),
        Goal("exactly_once_v2 in Spark, of the limit", V2, "limit", 0.8),
    ),
)
"""The first five are those of the goals."""
QUICK = 5
JSON = Meeting(
    "filter and project, JSON, 100 B, 100 ms",
    Work(job=Job.FILTER),
    (V2, "quix streams exactly-once"),
    1_000_000,
    (Goal("JSON filter and project vs Quix Streams", V2, "quix streams exactly-once", 3.0),),
)
PAIRED = Meeting(
    "exactly once and at least once, paired",
    Work(),
    (V2, "fenceline at_least_once, spark"),
    1_300_000,
    (Goal("exactly once vs our own at least once", V2, "fenceline at_least_once, spark", 0.97),),
    is_paired=True,
)
_OURS = (V2, "kafka streams exactly_once_v2", "limit")
OTHERS = (
    Meeting("identity, 1 KB", Work(size=1_000), _OURS, 400_000),
    Meeting("identity, 10 KB", Work(size=10_000), _OURS, 50_000),
    Meeting("commits each 10 ms", Work(commit_interval_ms=10), _OURS[:2], 1_300_000),
    Meeting("commits each 1,000 ms", Work(commit_interval_ms=1_000), _OURS[:2], 1_300_000),
    Meeting("two tasks", Work(tasks=2), _OURS[:2], 1_300_000),
    Meeting("lz4", Work(compression="lz4"), _OURS, 1_300_000),
    Meeting("a Python function, JSON", Work(job=Job.FUNCTION), (V2, "quix streams exactly-once"), 600_000),
)
