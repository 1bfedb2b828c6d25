"""Hanging transactions and pending offsets, as the search has found them, at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.hanging.hanging_transaction import Ending
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
    """Open in a partition, and no coordinator will ever end it: readers of committed data stop at its start."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: Annotated[int, Field(description="The one that an abort marker for it takes.")]
    transactional_id: Annotated[str | None, Field(description="null: no coordinator says whose the producer id is.")]
    is_corroborated: Annotated[
        bool, Field(description="The coordinators' journal was read, and does not account for it either.")
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
    commands: Annotated[list[str], Field(description="Lines to paste that end it: ours and Kafka's own.")]


class BlockingOffset(Answer):
    """A group's offset in an open transaction: a new owner of the partition may not begin (UNSTABLE_OFFSET_COMMIT)."""

    group: str
    topic: str
    partition: int
    offset: int
    since: datetime | None
    producer_id: int
    producer_epoch: int
    transactional_id: Annotated[str | None, Field(description="Whose it is, where the journal tells.")]
    state: Annotated[str | None, Field(description="Of its transaction, in Kafka's words.")]
    times_out_at: datetime | None
    is_hanging: Annotated[
        bool, Field(description="Nobody will decide it: end it in `journal_partition` of __consumer_offsets.")
    ]
    journal_partition: int

    @classmethod
    def of_hold(cls, one: PendingHold) -> BlockingOffset:
        times_out_ms = -1 if one.times_out_ms is None else one.times_out_ms
        return cls.of(one, since=moment(one.since_ms), times_out_at=moment(times_out_ms))


class UnclearPartition(Answer):
    """Readers have waited here for too long, and who refuses or is away is why nobody can say what holds them."""

    topic: str
    partition: int
    since: datetime | None
    reason: str


class HangingSearch(Answer):
    """How this server's search of the cluster is, and what it costs the brokers."""

    problem: Annotated[str, Field(description="Why nothing is searched now; empty when all is well.")]
    swept_at: Annotated[datetime | None, Field(description="When all partitions had been asked about last.")]
    age_ms: int | None
    sweep_took_ms: int
    partitions: int
    held_back: Annotated[int, Field(description="Partitions whose readers wait now, mostly for what is well.")]
    asked: Annotated[int, Field(description="Questions about open transactions since the server began.")]
    silent: Annotated[list[str], Field(description="Brokers and topics that told nothing.")]
    unclear: list[UnclearPartition]
    unclear_count: Annotated[int, Field(description="How many there are, of which `unclear` has the longest.")]

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
    pending_offsets: Annotated[list[BlockingOffset], Field(description="Undecided for a second or more, oldest first.")]
    pending_problem: Annotated[str, Field(description="Why offsets may be missing; empty when all is well.")]
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
    """One that was found; ended_at null: it hangs."""

    ended_at: datetime | None
    ending: Annotated[
        Ending | None,
        Field(description="By which marker; or adopted by its id's next one, or gone with the log."),
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
