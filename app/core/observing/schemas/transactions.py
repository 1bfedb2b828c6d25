"""REST schemas of transactional ids."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from app.core.journals.live_transactions import ClientProtocol, EpochStepKind
from app.core.journals.live_transactions import LiveTransaction as DomainTransaction
from app.core.mappings.mapping import IdKind
from app.core.observing.schemas.reading import JournalReading, PartitionsOfTopic, or_none
from app.core.observing.service.transactions import ObservedTransaction
from app.core.observing.service.transactions import PaceReading as DomainPace
from app.core.observing.service.transactions import TransactionDetail as DomainDetail
from app.core.observing.snapshot import SnapshotSource
from app.kit.web.api.bodies import Answer
from app.kit.words import moment

StateWord = Literal[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
]
"""TransactionStatus with the names of Kafka's own tools."""


class IdOwner(Answer):
    """The Fenceline pipeline that owns an id, and its task, if it belongs to one."""

    pipeline: str
    kind: IdKind
    ordinal: int | None
    task: int | None


class Transaction(Answer):
    """One transactional id as of its newest record, or its coordinator's answer."""

    transactional_id: str
    owner: Annotated[IdOwner | None, Field(description="null: the id is foreign.")]
    state: Annotated[StateWord, Field(description="Kafka's name.")]
    is_open: Annotated[bool, Field(description="It may block read_committed consumers.")]
    producer_id: int
    producer_epoch: int
    client_protocol: ClientProtocol
    timeout_ms: int
    started_at: Annotated[datetime | None, Field(description="The begin of the open or just ended transaction.")]
    open_ms: Annotated[int | None, Field(description="The age of the open transaction.")]
    times_out_at: datetime | None
    changed_at: Annotated[datetime | None, Field(description="The begin of this state; null: not known.")]
    topics: list[PartitionsOfTopic]
    commits: Annotated[int, Field(description="Since reading began.")]
    aborts: Annotated[int, Field(description="Since reading began.")]
    source: SnapshotSource
    journal_partition: Annotated[int | None, Field(description="The place of its newest record.")]
    journal_offset: int | None

    @classmethod
    def of_observed(cls, observed: ObservedTransaction, *, now: datetime) -> Transaction:
        return cls.model_validate(_transaction(observed, now))


class Step(Answer):
    """The id's first record with this producer id and epoch."""

    kind: EpochStepKind
    producer_id: int
    producer_epoch: int
    at: datetime | None
    journal_offset: int


class PendingOffset(Answer):
    """Stored when the transaction commits; until then new owners of the partition wait."""

    group: str
    topic: str
    partition: int
    offset: int
    producer_epoch: int


class TransactionDetail(Transaction):
    steps: Annotated[list[Step], Field(description="Those that are not routine, oldest first.")]
    steps_dropped: Annotated[int, Field(description="The number of older ones that are not kept.")]
    previous_producer_id: int | None
    next_producer_id: int | None
    pending_offsets: list[PendingOffset]
    reading: JournalReading

    @classmethod
    def of_detail(cls, detail: DomainDetail, *, now: datetime) -> TransactionDetail:
        live = detail.transaction.live
        return cls(
            **_transaction(detail.transaction, now),
            steps=[
                Step(
                    kind=step.kind,
                    producer_id=step.producer_id,
                    producer_epoch=step.producer_epoch,
                    at=moment(step.at_ms),
                    journal_offset=step.offset,
                )
                for step in live.steps
            ],
            steps_dropped=live.steps_dropped,
            previous_producer_id=or_none(live.state.previous_producer_id),
            next_producer_id=or_none(live.state.next_producer_id),
            pending_offsets=[
                PendingOffset(
                    group=one.group,
                    topic=one.topic,
                    partition=one.partition,
                    offset=one.pending.commit.offset,
                    producer_epoch=one.pending.producer_epoch,
                )
                for one in detail.pending_offsets
            ],
            reading=JournalReading.of_status(detail.journal, now=now),
        )


class TransactionList(Answer):
    items: list[Transaction]
    next_cursor: str | None
    matching: Annotated[int, Field(description="The number of results on all pages.")]
    reading: JournalReading


class PaceSample(Answer):
    """One second, by the brokers' clocks."""

    at: datetime
    open: Annotated[int, Field(description="Transactions that were open at its end.")]
    oldest_ms: Annotated[int, Field(description="The age of the oldest of these; 0: none was open.")]
    commits: int
    aborts: int


class TransactionPace(Answer):
    ids: Annotated[int, Field(description="The number of known transactional ids.")]
    open_transactions: int
    oldest: Annotated[str | None, Field(description="The id with the oldest open transaction.")]
    samples: Annotated[list[PaceSample], Field(description="The last 15 minutes, as far as the journal has them.")]
    reading: JournalReading

    @classmethod
    def of_pace(cls, pace: DomainPace, *, now: datetime) -> TransactionPace:
        return cls(
            ids=pace.tally.ids,
            open_transactions=pace.tally.open,
            oldest=None if pace.tally.oldest is None else pace.tally.oldest.transactional_id,
            samples=[
                PaceSample(
                    at=datetime.fromtimestamp(one.second, UTC),
                    open=one.open,
                    oldest_ms=one.oldest_ms,
                    commits=one.commits,
                    aborts=one.aborts,
                )
                for one in pace.samples
            ],
            reading=JournalReading.of_status(pace.journal, now=now),
        )


def _transaction(observed: ObservedTransaction, now: datetime) -> dict[str, Any]:
    live: DomainTransaction = observed.live
    owner, state = observed.owner, live.state
    started_at = moment(state.start_ms)
    open_ms = None
    if live.is_open and started_at is not None:
        open_ms = max(0, int((now - started_at).total_seconds() * 1000))
    return {
        "transactional_id": live.transactional_id,
        "owner": None if owner is None else IdOwner.of(owner),
        "state": state.status.word,
        "is_open": live.is_open,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "client_protocol": live.client_protocol,
        "timeout_ms": state.timeout_ms,
        "started_at": started_at,
        "open_ms": open_ms,
        "times_out_at": moment(live.times_out_at_ms),
        "changed_at": moment(state.last_update_ms),
        "topics": PartitionsOfTopic.of_all(state.partitions),
        "commits": live.commits,
        "aborts": live.aborts,
        "source": SnapshotSource.JOURNAL if live.is_from_journal else SnapshotSource.ADMIN_CALLS,
        "journal_partition": live.partition if live.is_from_journal else None,
        "journal_offset": live.offset if live.is_from_journal else None,
    }
