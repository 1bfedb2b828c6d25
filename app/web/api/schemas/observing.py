"""What the brokers say, at the edge. Times are the brokers' own, but for `as_of` and `phase_since`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from app.domain.journals.live_groups import Committed, GroupKind, GroupState
from app.domain.journals.live_groups import LiveGroup as DomainGroup
from app.domain.journals.live_transactions import ClientProtocol, StepKind
from app.domain.journals.live_transactions import LiveTransaction as DomainTransaction
from app.domain.journals.transaction_state import TopicPartitions
from app.domain.observing import group_list
from app.domain.observing.snapshot import JournalStatus, Phase, Snapshot, Source
from app.services.observing.groups import GroupDetail as DomainGroupDetail
from app.services.observing.transactions import ObservedTransaction
from app.services.observing.transactions import Pace as DomainPace
from app.services.observing.transactions import TransactionDetail as DomainDetail
from app.web.api.schemas.base import Answer

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
"""TransactionStatus, as Kafka's own tools spell it."""


def time_of(at_ms: int) -> datetime | None:
    """None for what the journal does not tell, or tells in a way that is no time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC) if 0 <= at_ms < 253_402_300_800_000 else None


class JournalReading(Answer):
    """Where an answer comes from, how old it is, and what it cannot know."""

    topic: str
    phase: Phase
    phase_since: datetime | None
    problem: Annotated[str, Field(description="A sentence for a person; empty when all is well.")]
    source: Annotated[Source, Field(description="`admin_calls` know what is so, not how it came to be.")]
    as_of: Annotated[datetime | None, Field(description="All that the journal held at this moment is in the answer.")]
    age_ms: Annotated[int | None, Field(description="How long ago `as_of` is.")]
    complete_since: Annotated[
        datetime | None, Field(description="The past is told without a gap from here on; null with `is_whole`.")
    ]
    is_whole: Annotated[bool, Field(description="The past is told from the journal's very first record on.")]
    lag_records: Annotated[int, Field(description="Records of the journal that are not read yet.")]
    partitions: int
    partitions_caught_up: int
    silent_partitions: Annotated[int, Field(description="Partitions whose leader does not answer now.")]
    records_read: int
    unreadable: Annotated[dict[str, int], Field(description="Records that could not be read, by reason.")]

    @classmethod
    def of_status(cls, status: JournalStatus, *, now: datetime) -> JournalReading:
        as_of = time_of(status.as_of_ms)
        return cls(
            topic=status.topic,
            phase=status.phase,
            phase_since=time_of(status.phase_since_ms),
            problem=status.problem,
            source=status.source,
            as_of=as_of,
            age_ms=None if as_of is None else max(0, int((now - as_of).total_seconds() * 1000)),
            complete_since=None if status.complete_since_ms is None else time_of(status.complete_since_ms),
            is_whole=status.complete_since_ms is None,
            lag_records=status.lag_records,
            partitions=status.partitions,
            partitions_caught_up=status.partitions_caught_up,
            silent_partitions=status.silent_partitions,
            records_read=status.records_read,
            unreadable=status.unreadable,
        )


class ObserverReading(Answer):
    """How this server's observer of one cluster is."""

    cluster: str
    number: Annotated[int, Field(description="Grows with everything that changes; the same number, the same answers.")]
    transactions: JournalReading
    groups: JournalReading
    transactional_ids: int
    open_transactions: int
    known_groups: int
    expired_ids: Annotated[int, Field(description="Ids that expired since reading began.")]
    records_of_unwanted_groups: int
    note: Annotated[str, Field(description="What is wrong with the saved state, if anything is.")]

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, *, now: datetime) -> ObserverReading:
        return cls(
            cluster=snapshot.cluster,
            number=snapshot.number,
            transactions=JournalReading.of_status(snapshot.transaction_journal, now=now),
            groups=JournalReading.of_status(snapshot.group_journal, now=now),
            transactional_ids=len(snapshot.transactions),
            open_transactions=sum(one.is_open for one in snapshot.transactions.values()),
            known_groups=len(snapshot.groups),
            expired_ids=snapshot.expired_ids,
            records_of_unwanted_groups=snapshot.records_of_unwanted_groups,
            note=snapshot.note,
        )


class PartitionsOfTopic(Answer):
    topic: str
    partitions: list[int]

    @classmethod
    def of_all(cls, found: tuple[TopicPartitions, ...] | None) -> list[PartitionsOfTopic]:
        return [cls(topic=one.topic, partitions=list(one.partitions)) for one in found or ()]


class IdOwner(Answer):
    """The task of a pipeline of this Fenceline."""

    pipeline: str
    ordinal: int
    task: int


class Transaction(Answer):
    """One transactional id as of its newest record, or of the coordinator's word."""

    transactional_id: str
    owner: Annotated[IdOwner | None, Field(description="null: the id is foreign.")]
    state: Annotated[StateWord, Field(description="In Kafka's words.")]
    is_open: Annotated[bool, Field(description="Readers of committed data may be held back by it.")]
    producer_id: int
    producer_epoch: int
    client_protocol: ClientProtocol
    timeout_ms: int
    started_at: Annotated[datetime | None, Field(description="When the open or just ended transaction began.")]
    open_ms: Annotated[int | None, Field(description="For how long it has been open.")]
    times_out_at: datetime | None
    changed_at: Annotated[datetime | None, Field(description="When this state was entered; null: not known.")]
    topics: list[PartitionsOfTopic]
    commits: Annotated[int, Field(description="Since reading began.")]
    aborts: Annotated[int, Field(description="Since reading began.")]
    source: Source
    journal_partition: Annotated[int | None, Field(description="Where its newest record is.")]
    journal_offset: int | None

    @classmethod
    def of_observed(cls, observed: ObservedTransaction, *, now: datetime) -> Transaction:
        return cls.model_validate(_transaction(observed, now))


class Step(Answer):
    """The id's first moment with this producer id and epoch."""

    kind: StepKind
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
    steps_dropped: Annotated[int, Field(description="How many older ones are not kept.")]
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
                    at=time_of(step.at_ms),
                    journal_offset=step.offset,
                )
                for step in live.steps
            ],
            steps_dropped=live.steps_dropped,
            previous_producer_id=_or_none(live.state.previous_producer_id),
            next_producer_id=_or_none(live.state.next_producer_id),
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
    matching: Annotated[int, Field(description="How many there are on all pages.")]
    reading: JournalReading


class PaceSample(Answer):
    """One second, by the brokers' clocks."""

    at: datetime
    open: Annotated[int, Field(description="Transactions that were open at its end.")]
    oldest_ms: Annotated[int, Field(description="The age of the oldest of these; 0: none was open.")]
    commits: int
    aborts: int


class TransactionPace(Answer):
    ids: Annotated[int, Field(description="Transactional ids that are known.")]
    open_transactions: int
    oldest: Annotated[str | None, Field(description="The id whose transaction has been open the longest.")]
    samples: Annotated[list[PaceSample], Field(description="The last 15 minutes, as far as the journal tells them.")]
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


class Group(Answer):
    group: str
    kind: GroupKind
    state: GroupState
    generation: Annotated[int, Field(description="Classic generation or group epoch; -1: neither is known.")]
    members: int
    stored_offsets: int
    pending_offsets: Annotated[int, Field(description="Of open transactions.")]
    rebalanced_at: datetime | None
    source: Annotated[
        Source, Field(description="admin_calls: its coordinator's word, which tells no past and no classic generation.")
    ]

    @classmethod
    def of_live(cls, group: DomainGroup) -> Group:
        return cls.model_validate(_group(group))


class Member(Answer):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    owned: list[PartitionsOfTopic]
    target: list[PartitionsOfTopic]
    revoking: list[PartitionsOfTopic]
    epoch: Annotated[int | None, Field(description="Of a KIP-848 member.")]
    state: str | None


class StoredOffset(Answer):
    """is_pending: a transaction would store it; producer_id null: no transaction did."""

    topic: str
    partition: int
    offset: Annotated[int | None, Field(description="null: a coordinator does not tell a pending one.")]
    is_pending: bool
    at: datetime | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: Annotated[str | None, Field(description="Whose producer id it is now, where that is known.")]


class Rebalance(Answer):
    number: Annotated[int, Field(description="The generation or group epoch that was reached.")]
    members: int
    at: datetime | None


class GroupDetail(Group):
    protocol: str | None
    leader: str | None
    member_list: list[Member]
    offsets: list[StoredOffset]
    rebalances: Annotated[list[Rebalance], Field(description="The newest ones, oldest first.")]
    offsets_aborted: Annotated[int, Field(description="Pending offsets that an abort threw away.")]
    reading: JournalReading

    @classmethod
    def of_detail(cls, detail: DomainGroupDetail, *, now: datetime) -> GroupDetail:
        group = detail.group

        def offset(topic: str, partition: int, found: Committed, *, is_pending: bool) -> StoredOffset:
            return StoredOffset(
                topic=topic,
                partition=partition,
                offset=_or_none(found.commit.offset),
                is_pending=is_pending,
                at=time_of(found.commit.commit_ms),
                producer_id=_or_none(found.producer_id),
                producer_epoch=_or_none(found.producer_epoch),
                transactional_id=detail.transactional_ids.get(found.producer_id),
            )

        stored = [offset(*at, found, is_pending=False) for at, found in sorted(group.offsets.items())]
        pending = [offset(*at[:2], found, is_pending=True) for at, found in sorted(group.pending.items())]
        return cls(
            **_group(group),
            protocol=None if group.classic is None else group.classic.protocol,
            leader=None if group.classic is None else group.classic.leader,
            member_list=[
                Member(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    host=member.host,
                    owned=PartitionsOfTopic.of_all(member.owned),
                    target=PartitionsOfTopic.of_all(member.target),
                    revoking=PartitionsOfTopic.of_all(member.revoking),
                    epoch=member.epoch,
                    state=member.state,
                )
                for member in group_list.members_of(group)
            ],
            offsets=stored + pending,
            rebalances=[
                Rebalance(number=one.number, members=one.members, at=time_of(one.at_ms)) for one in group.rebalances
            ],
            offsets_aborted=group.offsets_aborted,
            reading=JournalReading.of_status(detail.journal, now=now),
        )


class GroupList(Answer):
    items: list[Group]
    next_cursor: str | None
    matching: Annotated[int, Field(description="How many there are on all pages.")]
    reading: JournalReading


def _or_none(number: int) -> int | None:
    """Kafka's -1."""
    return None if number < 0 else number


def _transaction(observed: ObservedTransaction, now: datetime) -> dict[str, Any]:
    live: DomainTransaction = observed.live
    owner, state = observed.owner, live.state
    started_at = time_of(state.start_ms)
    open_ms = None
    if live.is_open and started_at is not None:
        open_ms = max(0, int((now - started_at).total_seconds() * 1000))
    return {
        "transactional_id": live.transactional_id,
        "owner": None if owner is None else IdOwner(pipeline=owner.pipeline, ordinal=owner.ordinal, task=owner.task),
        "state": state.status.word,
        "is_open": live.is_open,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "client_protocol": live.client_protocol,
        "timeout_ms": state.timeout_ms,
        "started_at": started_at,
        "open_ms": open_ms,
        "times_out_at": None if live.times_out_at_ms is None else time_of(live.times_out_at_ms),
        "changed_at": time_of(state.last_update_ms),
        "topics": PartitionsOfTopic.of_all(state.partitions),
        "commits": live.commits,
        "aborts": live.aborts,
        "source": Source.JOURNAL if live.is_from_journal else Source.ADMIN_CALLS,
        "journal_partition": live.partition if live.is_from_journal else None,
        "journal_offset": live.offset if live.is_from_journal else None,
    }


def _group(group: DomainGroup) -> dict[str, Any]:
    members = group.members if group.has_epoch else (group.classic.members if group.classic else ())
    return {
        "group": group.group,
        "kind": group.kind,
        "state": group.state,
        "generation": group.generation,
        "members": len(members),
        "stored_offsets": len(group.offsets),
        "pending_offsets": len(group.pending),
        "rebalanced_at": time_of(group.rebalances[-1].at_ms) if group.rebalances else None,
        "source": Source.JOURNAL if group.is_from_journal else Source.ADMIN_CALLS,
    }
