"""Fencing events at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from app.domain.fencing_events import evidence
from app.domain.fencing_events import fencing_event as domain_event
from app.domain.fencing_events.fencing_event import Cause, Confidence, FencingKind
from app.domain.fencing_events.runbook import runbook
from app.domain.fencing_events.story import Side, story_of
from app.domain.runs.task import EventKind
from app.domain.storable import moment_of_ms
from app.services.fencing_feed import FencingLine
from app.web.api.schemas.base import Answer
from app.web.api.schemas.observing.transactions import StateWord


class TopicPartitions(Answer):
    topic: str
    partitions: list[int]


class RecordedState(Answer):
    """A record of `__transaction_state`. partitions: those of an open transaction."""

    offset: int
    timestamp_ms: int
    status: StateWord
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    last_update_ms: int
    client_transaction_version: int
    version: int
    partitions: list[TopicPartitions]


class CoordinatorRecord(Answer):
    """A record of the id, in a partition of `__transaction_state`."""

    source: Literal["coordinator"]
    partition: int
    record: RecordedState


class GroupRecord(Answer):
    """A generation or member epoch that the group reached, in `__consumer_offsets`."""

    source: Literal["group"]
    group: str
    number: int
    is_epoch: bool
    members: int
    partition: int
    offset: int
    at_ms: int


class MarkerRecord(Answer):
    """The end of a transaction as a partition has it."""

    source: Literal["marker"]
    topic: str
    partition: int
    offset: int
    at_ms: int
    type: Literal["ABORT", "COMMIT"]
    coordinator_epoch: int


class ClientWord(Answer):
    """What one of our tasks felt."""

    source: Literal["client"]
    event_id: str
    kind: EventKind
    at_ms: int
    message: str
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    pipeline: str
    host: str
    group: str
    error: str | None
    generation: int | None
    partitions: list[str]


class CommandWord(Answer):
    """A command of ours on this id; producer_id and producer_epoch are what the broker answered."""

    source: Literal["command"]
    command_id: int
    verb: evidence.CommandVerb
    at_ms: int
    who: str
    why: str | None
    producer_id: int | None
    producer_epoch: int | None
    partitions: list[str]
    was_open: bool


Evidence = Annotated[
    CoordinatorRecord | GroupRecord | MarkerRecord | ClientWord | CommandWord, Field(discriminator="source")
]


class FencingPlace(Answer):
    """Whose loss it was; all null for clients that are not ours."""

    pipeline: str | None
    group_id: Annotated[str | None, Field(description="The group of the member, or of the pipeline.")]
    run_id: str | None
    ordinal: int | None
    lease: int | None
    task: int | None
    attempt: int | None
    host: str | None
    partitions: list[str]


class Verdict(Answer):
    """What is said of a loss. at: by the clock of whoever wrote it down."""

    cause: Cause
    is_fencing: Annotated[bool, Field(description="False for what only looks like it, as a clean restart.")]
    confidence: Confidence
    at: datetime
    sentence: str
    alternatives: Annotated[list[Cause], Field(description="What else it could be.")]


class Correction(Verdict):
    """What was said until `until`, when more evidence came."""

    until: datetime


class FencingEvent(Verdict):
    """A loss, and what is said of it now. `producer_id` and `producer_epoch` are those that were ended."""

    id: str
    cluster: Annotated[str | None, Field(description="As it is registered; null when it is not any more.")]
    kafka_cluster_id: str
    transactional_id: Annotated[str, Field(description="Empty where no coordinator knows one.")]
    producer_id: int
    producer_epoch: int
    kind: Annotated[FencingKind, Field(description="What was taken.")]
    place: FencingPlace
    told_at: Annotated[datetime, Field(description="When it was first written down, by our clock.")]
    changed_at: datetime

    @classmethod
    def of_line(cls, line: FencingLine) -> FencingEvent:
        return cls.of(line.record.event.key, **_told(line))


class Moment(Answer):
    """One piece of the evidence in words: whose moment it is, what was done, and where that is written."""

    at_ms: int
    side: Side
    what: str
    source: str
    is_own_word: Annotated[bool, Field(description="The producer that was ended said it itself.")]


class FencingEventDetail(FencingEvent):
    """With what proves it, and what was said of it before, oldest first."""

    evidence: list[Evidence]
    moments: list[Moment]
    runbook: Annotated[list[str], Field(description="What to do next, in this order.")]
    corrections: list[Correction]

    @classmethod
    def of_line(cls, line: FencingLine) -> FencingEventDetail:
        record = line.record
        corrections = [{**_verdict(one.verdict), "until": one.until} for one in record.corrections]
        return cls.of(
            record.event.key,
            **_told(line),
            evidence=[_evidence(one) for one in record.event.evidence],
            moments=story_of(record.event).moments,
            runbook=runbook(record.event.verdict.cause),
            corrections=corrections,
        )


class FencingPage(Answer):
    """Newest first, by when it happened."""

    items: list[FencingEvent]
    next_cursor: str | None


def _told(line: FencingLine) -> dict[str, object]:
    record = line.record
    return {
        "id": record.id,
        "cluster": line.cluster,
        "place": record.place,
        "told_at": record.told_at,
        "changed_at": record.changed_at,
        **_verdict(record.event.verdict),
    }


def _verdict(verdict: domain_event.Verdict) -> dict[str, object]:
    return {
        "cause": verdict.cause,
        "is_fencing": verdict.cause.is_fencing,
        "confidence": verdict.confidence,
        "at": moment_of_ms(verdict.at_ms),
        "sentence": verdict.sentence,
        "alternatives": verdict.alternatives,
    }


def _evidence(one: evidence.Evidence) -> dict[str, Any]:
    """As it is kept, with Kafka's words for what it keeps as numbers."""
    built: dict[str, Any] = msgspec.to_builtins(one)
    if isinstance(one, evidence.CoordinatorRecord):
        built["record"]["status"] = one.record.status.word
    elif isinstance(one, evidence.MarkerRecord):
        built["type"] = one.type.name
    return built
