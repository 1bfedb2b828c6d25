"""REST schemas of lag."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, LagReport, PartitionLag
from app.core.lag.service import GroupLagDetail
from app.kit.web.api.bodies import Answer
from app.kit.words import moment

Records = Annotated[
    int | None,
    Field(
        description="Between committed offset and end; 0 if only markers and aborted records are left; null: not known."
    ),
]
Seconds = Annotated[float | None, Field(description="Age of the oldest unread record; null: not known.")]
IsAtLeast = Annotated[bool, Field(description="True: `lag_s` or more, since this server has no older samples.")]
Blocked = Annotated[int | None, Field(description="Records behind the last stable offset.")]


class Lag(Answer):
    """The lag of a group, over all partitions of which it is known."""

    state: LagState
    since: Annotated[datetime | None, Field(description="Begin of the state, as this server has observed it.")]
    lag_records: Records
    lag_s: Seconds
    lag_is_at_least: IsAtLeast
    blocked_records: Blocked
    records_per_s: Annotated[float | None, Field(description="Records committed a second, in the last minute or more.")]
    partitions: int
    known_partitions: int
    partitions_in_state: int
    growing_since: Annotated[datetime | None, Field(description="When the lag of a partition began to grow.")]
    paused_pipeline: str | None

    @classmethod
    def of_group(cls, one: GroupLag | None) -> Lag | None:
        if one is None:
            return None
        return cls(
            state=one.state,
            since=moment(one.since_ms),
            lag_records=one.lag_records,
            lag_s=_seconds(one.lag_ms),
            lag_is_at_least=one.is_bound,
            blocked_records=one.blocked,
            records_per_s=one.rate,
            partitions=one.partitions,
            known_partitions=one.known,
            partitions_in_state=one.troubled,
            growing_since=moment(one.growing_ms),
            paused_pipeline=one.pipeline,
        )


class LagOfPartition(Answer):
    topic: str
    partition: int
    state: LagState
    committed: int
    end: Annotated[int | None, Field(description="The high watermark.")]
    last_stable_offset: int | None
    lag_records: Records
    unread_offsets: Annotated[int | None, Field(description="With markers and aborted records.")]
    lag_s: Seconds
    lag_is_at_least: IsAtLeast
    blocked_records: Blocked
    advanced_at: Annotated[datetime | None, Field(description="When the committed offset was last seen to change.")]
    as_of: Annotated[datetime | None, Field(description="Of `end`.")]
    problem: Annotated[str, Field(description="Why its leader has not answered since `as_of`; empty: it has.")]

    @classmethod
    def of_partition(cls, one: PartitionLag) -> LagOfPartition:
        return cls(
            topic=one.at.topic,
            partition=one.at.partition,
            state=one.state,
            committed=one.committed,
            end=one.end,
            last_stable_offset=one.last_stable,
            lag_records=one.lag_records,
            unread_offsets=one.unread,
            lag_s=_seconds(one.lag_ms),
            lag_is_at_least=one.is_bound,
            blocked_records=one.blocked,
            advanced_at=moment(one.since_ms),
            as_of=moment(one.as_of_ms),
            problem=one.problem,
        )


class LagAt(Answer):
    """The greatest lag of 5 minutes that end at `at`."""

    at: datetime | None
    lag_records: int | None
    lag_s: float | None


class LagSampling(Answer):
    """How the lag of the cluster's groups is sampled."""

    at: Annotated[datetime | None, Field(description="Of the newest round; null: none yet.")]
    partitions: int
    sampled_partitions: Annotated[int, Field(description="Of the newest round; the others follow in the next ones.")]
    period_s: Annotated[float, Field(description="The time in which each partition is asked once.")]
    unanswered_partitions: Annotated[int, Field(description="Without a current answer of their leaders.")]
    problem: str

    @classmethod
    def of_report(cls, report: LagReport) -> LagSampling:
        return cls(
            at=moment(report.at_ms) if report.at_ms >= 0 else None,
            partitions=report.partitions,
            sampled_partitions=report.sampled,
            period_s=report.period_ms / 1000,
            unanswered_partitions=report.unanswered,
            problem=report.problem,
        )


def partitions_of(detail: GroupLagDetail | None) -> list[LagOfPartition]:
    return [] if detail is None else [LagOfPartition.of_partition(one) for one in detail.rows]


def history_of(detail: GroupLagDetail | None) -> list[LagAt]:
    rows = () if detail is None else detail.history
    return [LagAt(at=moment(one.at_ms), lag_records=one.lag_records, lag_s=_seconds(one.lag_ms)) for one in rows]


def _seconds(value_ms: int | None) -> float | None:
    return None if value_ms is None else value_ms / 1000
