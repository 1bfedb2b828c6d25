"""How good an answer of the observer is, and what its answers have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.journals.transaction_state import TopicPartitions
from app.core.observing.snapshot import JournalStatus, Phase, Snapshot, Source
from app.kit.web.api.bodies import Answer
from app.kit.words import moment


def or_none(number: int) -> int | None:
    """Kafka's -1."""
    return None if number < 0 else number


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
        as_of = moment(status.as_of_ms)
        return cls(
            topic=status.topic,
            phase=status.phase,
            phase_since=moment(status.phase_since_ms),
            problem=status.problem,
            source=status.source,
            as_of=as_of,
            age_ms=None if as_of is None else max(0, int((now - as_of).total_seconds() * 1000)),
            complete_since=moment(status.complete_since_ms),
            is_whole=status.complete_since_ms is None,
            lag_records=status.lag_records,
            partitions=status.partitions,
            partitions_caught_up=status.partitions_caught_up,
            silent_partitions=status.silent_partitions,
            records_read=status.records_read,
            unreadable=status.unreadable,
        )


class BrokerClock(Answer):
    """A broker's clock, as the records that it writes into journals show it."""

    broker_id: int
    behind_ms: Annotated[int | None, Field(description="Behind ours; below zero: ahead; null: not known.")]
    uncertainty_ms: Annotated[int | None, Field(description="It may be so much more or less.")]
    measured_at: datetime | None

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> list[BrokerClock]:
        """Every broker that leads a partition of a journal."""
        brokers = sorted({*snapshot.clocks.leaders.values(), *snapshot.clocks.offsets})
        return [
            cls(
                broker_id=broker,
                behind_ms=None if offset is None else offset.middle_ms,
                uncertainty_ms=None if offset is None else (offset.most_ms - offset.least_ms + 1) // 2,
                measured_at=None if offset is None else moment(offset.measured_ms),
            )
            for broker in brokers
            for offset in (snapshot.clocks.offsets.get(broker),)
        ]


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
    clocks: Annotated[list[BrokerClock], Field(description="Of the brokers that lead a part of the journals.")]
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
            clocks=BrokerClock.of_snapshot(snapshot),
            note=snapshot.note,
        )


class PartitionsOfTopic(Answer):
    topic: str
    partitions: list[int]

    @classmethod
    def of_all(cls, found: tuple[TopicPartitions, ...] | None) -> list[PartitionsOfTopic]:
        return [cls(topic=one.topic, partitions=list(one.partitions)) for one in found or ()]
