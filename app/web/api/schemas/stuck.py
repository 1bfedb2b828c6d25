"""Why readers wait, and ending a transaction by hand, at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.stuck.diagnosis import Kind, Source, Verdict
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.offsets import Offset, Partition, Topic
from app.web.api.schemas.words import Why

TransactionalId = Annotated[str, Field(min_length=1, max_length=1000, examples=["fl.t.delayed-flights.0.0"])]
ProducerId = Annotated[int, Field(ge=0, lt=2**63)]
ProducerEpoch = Annotated[int, Field(ge=0, lt=2**15)]
Force = Annotated[bool, Field(description="Overrule what speaks against it; takes a `why`.")]


class Link(Answer):
    """One sentence, which answer of the brokers it stands on, and when that was given."""

    sentence: str
    source: Source
    seen_ms: int


class Holder(Answer):
    """The open transaction that holds readers up, and where; `transactional_id` null: no coordinator says whose."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None


class Diagnosis(Answer):
    """One partition. until_ms: when it ends by itself, where that is known."""

    subject: str
    verdict: Verdict
    headline: str
    links: list[Link]
    advice: str
    until_ms: int | None
    commands: Annotated[list[str], Field(description="Lines to paste: ours and Kafka's own.")]
    holder: Holder | None


class Explanation(Answer):
    """A group, or a topic; its worst partition first."""

    kind: Kind
    subject: str
    verdict: Verdict
    headline: str
    links: list[Link]
    partitions: list[Diagnosis]


class Plan(Answer):
    """What would be done. objections: refused for them unless forced. impossible: refused in any case."""

    what: str
    losses: list[str]
    objections: list[str]
    impossible: str | None
    command: Annotated[str, Field(description="How Kafka's own tool does it.")]


class OpenTransaction(Answer):
    """As the partition's leader has it (DescribeProducers)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_ms: int
    start_offset: int


class EndPlan(Plan):
    target: OpenTransaction | None


class Fenced(Answer):
    """What was done, and the producer id and epoch that the id has now."""

    plan: Plan
    producer_id: int
    producer_epoch: int
    state: Annotated[str | None, Field(description="As its coordinator says after it.")]


class Ended(Answer):
    """What was done, and how the partition's readers are after it."""

    plan: EndPlan
    after: Diagnosis


class FenceTarget(Body):
    transactional_id: TransactionalId


class FenceGiven(FenceTarget):
    force: Force = False
    why: Why = None


class EndTarget(Body):
    """start_offset: which transaction, by where it begins; without it the one that readers wait for."""

    topic: Topic
    partition: Partition
    start_offset: Offset | None = None


class EndGiven(Body):
    """The transaction as the preview showed it; 412 when another one is there by now."""

    topic: Topic
    partition: Partition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_offset: Offset
    force: Force = False
    why: Why = None
