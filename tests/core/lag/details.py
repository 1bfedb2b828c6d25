"""The lag of a group as a page shows it."""

from __future__ import annotations

from datetime import UTC, datetime

from app.core.clusters.partition import Partition
from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, LagReport, LagSample, PartitionLag
from app.core.lag.service import GroupLagDetail
from app.kit.chart_range import ChartRange, window_of

AT_MS = 1_800_000_000_000


def total_lag(name: str = "readers", state: LagState = LagState.HEALTHY, **more: object) -> GroupLag:
    given: dict[str, object] = {
        "partitions": 4,
        "known": 4,
        "troubled": 1,
        "lag_records": 37,
        "lag_ms": 3_000,
        "blocked": 0,
        "rate": 400.0,
    }
    return GroupLag(group=name, state=state, since_ms=AT_MS - 60_000, **{**given, **more})  # pyright: ignore[reportArgumentType] - fields by name


WINDOW = window_of(ChartRange.DAY, now=datetime.fromtimestamp(AT_MS / 1000, UTC))
"""Of all samples of `lag_detail`."""


def report_of(*groups: GroupLag, cluster: str = "c", at_ms: int = AT_MS, **more: object) -> LagReport:
    return LagReport(
        cluster=cluster,
        at_ms=at_ms,
        groups={one.group: one for one in groups},
        sampled=4,
        partitions=4,
        period_ms=15_000,
        **more,  # pyright: ignore[reportArgumentType] - fields by name
    )


def lag_detail(*, topic: str = "flights", state: LagState = LagState.NOT_READING) -> GroupLagDetail:
    """Twelve healthy partitions, two with `state`, one with markers only, and one whose leader is silent."""

    def row(number: int, state: LagState, lag: int, **more: object) -> PartitionLag:
        given: dict[str, object] = {
            "end": 10_400 + number,
            "last_stable": 10_400 + number,
            "unread": lag,
            "blocked": 0,
            "lag_ms": 900 * lag,
            "since_ms": AT_MS - 2_000,
            "as_of_ms": AT_MS,
        }
        return PartitionLag(
            at=Partition(topic, number),
            state=state,
            committed=10_400 + number - lag,
            lag_records=lag,
            **{**given, **more},  # pyright: ignore[reportArgumentType] - fields by name
        )

    rows = [row(number, LagState.HEALTHY, number % 3) for number in range(12)]
    rows += [row(12, state, 4_210, since_ms=AT_MS - 420_000), row(13, state, 77, is_bound=True)]
    rows += [row(14, LagState.HEALTHY, 0, unread=1)]
    rows += [row(15, LagState.UNKNOWN, 12, problem="ListOffsets was refused: no answer", as_of_ms=AT_MS - 95_000)]
    history = tuple(
        LagSample(AT_MS - 300_000 * age, None if age == 40 else 100 + 9 * (age % 30), 1_000 * (age % 30))
        for age in reversed(range(288))
    )
    total = total_lag(state=state, partitions=16, known=16, troubled=2, lag_records=4_311, lag_ms=420_000)
    return GroupLagDetail(total=total, rows=tuple(rows), history=history)
