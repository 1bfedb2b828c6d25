"""REST schemas of freshness, and common parts of the observer's answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.journals.transaction_state import TopicPartitions
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot, SnapshotSource
from app.kit.web.api.bodies import Answer
from app.kit.words import moment


def or_none(number: int) -> int | None:
    """Kafka's -1."""
    return None if number < 0 else number


class JournalReading(Answer):
    """The source, age and completeness of an answer."""

    topic: str
    phase: ReadingPhase
    phase_since: datetime | None
    problem: Annotated[str, Field(description="A sentence for a person; empty without a problem.")]
    source: Annotated[SnapshotSource, Field(description="`admin_calls` have the current state without its history.")]
    as_of: Annotated[datetime | None, Field(description="The answer has all records of the journal up to this time.")]
    age_ms: Annotated[int | None, Field(description="The age of `as_of`.")]
    complete_since: Annotated[
        datetime | None, Field(description="The history is complete from here on; null with `is_whole`.")
    ]
    is_whole: Annotated[bool, Field(description="The history is complete from the journal's first record on.")]
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
    behind_ms: Annotated[int | None, Field(description="Behind the server's; below zero: ahead; null: not known.")]
    uncertainty_ms: Annotated[int | None, Field(description="The error of the measurement, in both directions.")]
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
    """The state of this server's observer of one cluster."""

    cluster: str
    number: Annotated[int, Field(description="Grows with every change; equal numbers mean equal answers.")]
    transactions: JournalReading
    groups: JournalReading
    transactional_ids: int
    open_transactions: int
    known_groups: int
    expired_ids: Annotated[int, Field(description="Ids that expired since reading began.")]
    records_of_unwanted_groups: int
    clocks: Annotated[list[BrokerClock], Field(description="Of the brokers that lead partitions of the journals.")]
    note: Annotated[str, Field(description="The problem of the saved state, if there is one.")]

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, *, now: datetime) -> ObserverReading:
        return cls(
            cluster=snapshot.cluster,
            number=snapshot.number,
            transactions=JournalReading.of_status(snapshot.transaction_journal, now=now),
            groups=JournalReading.of_status(snapshot.group_journal, now=now),
            transactional_ids=len(snapshot.transactions),
            open_transactions=len(snapshot.open_transactions),
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
