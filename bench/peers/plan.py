"""Which systems meet under which conditions, and what is asked of their ratios."""

from __future__ import annotations

from typing import NamedTuple

from app.core.pipelines.pipeline import ProcessingGuarantee
from bench.peers.work import Job, Work

V2 = "fenceline exactly_once_v2, spark"
STREAMS = "kafka streams exactly_once_v2"
SINK = "spark kafka sink"
QUIX = "quix streams exactly-once"
LIMIT = "limit"
ALO = "fenceline at_least_once, spark"


class Goal(NamedTuple):
    """`ours` to `theirs`, at least. low: where its interval shall begin at the lowest."""

    row: str
    ours: str
    theirs: str
    at_least: float
    low: float | None = None


class Meeting(NamedTuple):
    """Systems that take turns on one source.

    records_each: of the source, for each second of a round: as many as the fastest takes.
    rounds: how many, unless another number is asked for.
    """

    name: str
    work: Work
    systems: tuple[str, ...]
    records_each: int
    rounds: int = 5
    goals: tuple[Goal, ...] = ()


MAIN = Meeting(
    "identity, 100 B, commits each 100 ms",
    Work(),
    (V2, STREAMS, SINK, QUIX, LIMIT),
    2_000_000,
    goals=(
        Goal("exactly_once_v2 in Spark vs Kafka Streams exactly_once_v2", V2, STREAMS, 1.8, 1.5),
        Goal("exactly_once_v2 in Spark vs Spark's own Kafka sink", V2, SINK, 2.0),
        Goal("exactly_once_v2 in Spark vs Quix Streams exactly-once", V2, QUIX, 18.0),
        Goal("exactly_once_v2 in Spark vs the limit", V2, LIMIT, 0.8),
    ),
)
JSON = Meeting(
    "JSON filter and project",
    Work(job=Job.FILTER),
    (V2, STREAMS, QUIX),
    2_600_000,
    goals=(
        Goal("JSON filter and project vs Quix Streams", V2, QUIX, 15.0),
        Goal("JSON filter and project vs Kafka Streams", V2, STREAMS, 2.0),
    ),
)
QUICK = (
    MAIN._replace(systems=(V2, STREAMS, SINK, QUIX), goals=MAIN.goals[:3], rounds=3),
    JSON._replace(rounds=2),
)
"""The first three rows, and JSON."""
_OURS = (V2, STREAMS, LIMIT)
DEFAULTS = Meeting(
    "as they come: their own defaults, and ours",
    Work(),
    (V2, "kafka streams exactly_once_v2, defaults", "spark kafka sink, defaults"),
    2_000_000,
    rounds=3,
    goals=(
        Goal(
            "exactly_once_v2 in Spark vs Kafka Streams exactly_once_v2 with its defaults",
            V2,
            "kafka streams exactly_once_v2, defaults",
            1.8,
        ),
        Goal(
            "exactly_once_v2 in Spark vs Spark's own Kafka sink with its defaults",
            V2,
            "spark kafka sink, defaults",
            2.8,
        ),
    ),
)
OTHERS = (
    Meeting(
        "identity, every guarantee",
        Work(),
        (
            V2,
            "fenceline exactly_once_v2, bare",
            "fenceline exactly_once, spark",
            "fenceline exactly_once, bare",
            ALO,
            "fenceline at_least_once, bare",
            STREAMS,
            "kafka streams at_least_once",
            QUIX,
            "quix streams at-least-once",
        ),
        1_300_000,
        rounds=3,
    ),
    Meeting(
        "identity, 1 KB",
        Work(size=1_000),
        (*_OURS, SINK, QUIX),
        600_000,
        goals=(Goal("records of 1 KB vs Kafka Streams", V2, STREAMS, 1.5),),
    ),
    Meeting("identity, 10 KB", Work(size=10_000), (*_OURS, SINK, QUIX), 50_000, rounds=3),
    Meeting("commits each 10 ms", Work(commit_interval_ms=10), (V2, STREAMS, QUIX), 1_300_000, rounds=3),
    Meeting("commits each 1,000 ms", Work(commit_interval_ms=1_000), (V2, STREAMS, QUIX), 1_300_000, rounds=3),
    Meeting("two tasks", Work(tasks=2), (V2, STREAMS, SINK), 1_300_000, rounds=3),
    Meeting("lz4", Work(compression="lz4"), (*_OURS, SINK, QUIX), 1_300_000, rounds=3),
    Meeting("headers on every record", Work(headers=2), (V2, STREAMS), 1_000_000, rounds=3),
    Meeting("a Python function on JSON", Work(job=Job.FUNCTION), (V2, QUIX), 600_000, rounds=3),
    Meeting(
        "a polars function on Arrow batches",
        Work(job=Job.ARROW),
        (V2, QUIX),
        1_300_000,
        goals=(Goal("a polars function vs a Python function in Quix Streams", V2, QUIX, 8.0),),
    ),
)
MEETINGS = (MAIN, DEFAULTS, JSON, *OTHERS)


class Side(NamedTuple):
    """One of a pair."""

    name: str
    guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE_V2
    work: Work = Work()

    @property
    def is_exact(self) -> bool:
        return self.guarantee is not ProcessingGuarantee.AT_LEAST_ONCE


class Pair(NamedTuple):
    """Two ways of the loop that take turns of seconds, until the interval of their median ratio is narrow enough.

    rounds: the fewest and the most. records: of the source.
    at_least, low: what the ratio shall be, and where its interval shall begin at the lowest.
    """

    name: str
    row: str
    ours: Side
    theirs: Side
    at_least: float
    low: float | None
    narrow: float
    rounds: tuple[int, int]
    records: int = 24_000_000


_ONE = Side("exactly_once_v2")


def _headers(name: str, words: str, count: int) -> Pair:
    side = Side(f"{words} on each record", work=Work(headers=count))
    return Pair(name, f"{words} on each record vs none", side, _ONE, at_least=0.8, low=None, narrow=0.1, rounds=(9, 30))


PAIRS = (
    Pair(
        "exactly once and at least once",
        "exactly once vs our own at least once",
        _ONE,
        Side("at_least_once", ProcessingGuarantee.AT_LEAST_ONCE),
        at_least=0.97,
        low=0.95,
        narrow=0.04,
        rounds=(15, 60),
    ),
    _headers("headers and none", "two headers", 2),
    _headers("a header and none", "one header", 1),
    Pair(
        "two tasks and one",
        "two tasks vs one, on two cores with the broker",
        Side("two tasks", work=Work(tasks=2)),
        _ONE,
        at_least=1.0,
        low=None,
        narrow=0.1,
        rounds=(9, 30),
    ),
)
