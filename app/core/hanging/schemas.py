"""REST schemas of hanging transactions and pending offsets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.hanging.hanging_transaction import HangingEnding
from app.core.hanging.hanging_transaction import HangingTransaction as DomainTransaction
from app.core.hanging.pending import PendingHold
from app.core.hanging.record import HangingRecord as DomainRecord
from app.core.hanging.report import SearchReport
from app.core.hanging.service import HangingLook
from app.kit.page import Page
from app.kit.web.api.bodies import Answer
from app.kit.web.api.shown import shows, stands_for
from app.kit.words import moment


class HangingTransaction(Answer):
    """Open in a partition, and no coordinator will ever end it: read_committed consumers are blocked at its start."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: Annotated[int, Field(description="The coordinator epoch for its abort marker.")]
    transactional_id: Annotated[str | None, Field(description="null: no coordinator knows the producer id.")]
    is_corroborated: Annotated[
        bool, Field(description="The coordinators' journal was read, and does not have it either.")
    ]
    sentence: str
    found_at: datetime | None
    last_written_at: Annotated[datetime | None, Field(description="By the clock of the partition's leader.")]

    @classmethod
    def of_found(cls, one: DomainTransaction) -> HangingTransaction:
        return cls.of(
            one.key,
            coordinator_epoch=one.coordinator_epoch,
            transactional_id=one.transactional_id,
            is_corroborated=one.is_corroborated,
            sentence=one.sentence,
            found_at=moment(one.found_ms),
            last_written_at=moment(one.last_written_ms),
        )


class HangingNow(HangingTransaction):
    commands: Annotated[list[str], Field(description="Commands to paste that end it: Fenceline's and Kafka's own.")]


class BlockingOffset(Answer):
    """A group's offset in an open transaction: a new owner of the partition cannot start (UNSTABLE_OFFSET_COMMIT)."""

    group: str
    topic: str
    partition: int
    offset: int
    since: datetime | None
    producer_id: int
    producer_epoch: int
    transactional_id: Annotated[str | None, Field(description="Of its transaction, if the journal has it.")]
    state: Annotated[str | None, Field(description="Of its transaction, in Kafka's terms.")]
    times_out_at: datetime | None
    is_hanging: Annotated[
        bool, Field(description="No coordinator will end it: end it in `journal_partition` of __consumer_offsets.")
    ]
    journal_partition: int

    @classmethod
    def of_hold(cls, one: PendingHold) -> BlockingOffset:
        times_out_ms = -1 if one.times_out_ms is None else one.times_out_ms
        return cls.of(one, since=moment(one.since_ms), times_out_at=moment(times_out_ms))


class UnclearPartition(Answer):
    """A partition that is blocked for too long, and the broker or permission whose lack prevents the diagnosis."""

    topic: str
    partition: int
    since: datetime | None
    reason: str


class HangingSearch(Answer):
    """The state of this server's search of the cluster, and its load on the brokers."""

    problem: Annotated[str, Field(description="The reason for which the search does not work; empty if it works.")]
    swept_at: Annotated[datetime | None, Field(description="The end of the last sweep of all partitions.")]
    age_ms: int | None
    sweep_took_ms: int
    partitions: int
    held_back: Annotated[int, Field(description="Blocked partitions, mostly by live transactions.")]
    asked: Annotated[int, Field(description="Requests about open transactions since the server started.")]
    silent: Annotated[list[str], Field(description="Brokers and topics that did not answer.")]
    unclear: list[UnclearPartition]
    unclear_count: Annotated[int, Field(description="Their number; `unclear` has the longest.")]

    @classmethod
    def of_report(cls, report: SearchReport, *, now: datetime) -> HangingSearch:
        swept_at = moment(report.swept_ms)
        return cls.of(
            report,
            problem=report.problem_at(int(now.timestamp() * 1000)),
            swept_at=swept_at,
            age_ms=None if swept_at is None else max(0, int((now - swept_at).total_seconds() * 1000)),
            unclear=[UnclearPartition.of(one, since=moment(one.since_ms)) for one in report.unclear],
        )


class Hanging(Answer):
    items: list[HangingNow]
    pending_offsets: Annotated[list[BlockingOffset], Field(description="Pending for a second or more, oldest first.")]
    pending_problem: Annotated[str, Field(description="The reason for which offsets may be missing; empty if none is.")]
    search: HangingSearch

    @classmethod
    def of_look(cls, look: HangingLook, *, now: datetime) -> Hanging:
        return cls(
            items=[
                HangingNow(
                    **HangingTransaction.of_found(one).model_dump(),
                    commands=list(one.commands(look.bootstrap_servers)),
                )
                for one in look.search.hanging
            ],
            pending_offsets=[BlockingOffset.of_hold(one) for one in look.pending],
            pending_problem=look.pending_problem,
            search=HangingSearch.of_report(look.search, now=now),
        )


class HangingRecord(HangingTransaction):
    """A hanging transaction that was found; ended_at null: it still hangs."""

    ended_at: datetime | None
    ending: Annotated[
        HangingEnding | None,
        Field(description="Its marker; or adopted by its id's next transaction, or gone with the log."),
    ]
    marker_offset: int | None

    @classmethod
    def of_record(cls, record: DomainRecord) -> HangingRecord:
        return cls(
            **HangingTransaction.of_found(record.transaction).model_dump(),
            ended_at=record.ended_at,
            ending=record.ending,
            marker_offset=record.marker_offset,
        )


stands_for(DomainRecord, HangingRecord, HangingRecord.of_record)


@shows(Page[DomainRecord])
class HangingPage:
    pass
