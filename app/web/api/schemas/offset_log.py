"""The offset log at the edge: checks, contradictions with the events of both sides, and doubts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from app.domain.offset_log.check import PartitionCheck as DomainPartition
from app.domain.offset_log.check import PipelineCheck as DomainCheck
from app.domain.offset_log.events import Found, Leaving, Outcome
from app.domain.offset_log.record import CheckRecord as DomainRecord
from app.domain.offset_log.record import FindingRecord as DomainFinding
from app.domain.offset_log.verdict import Kind, Standing
from app.services.offset_log import OffsetLog as DomainLog
from app.web.api.schemas.base import Answer

Index = Annotated[int, Field(description="Of the attempt's events about the partition; a missing one is a hole.")]
Number = Annotated[int, Field(description="The task's ownership number of the partition.")]
Follows = Annotated[
    int | None,
    Field(description="How many checkpoints the event before it stands for; null: it is the first, or not said."),
]
At = Annotated[int | None, Field(description="By the clock of its host.")]


class AssignedEvent(Answer):
    type: Literal["assigned"]
    index: Index
    number: Number
    follows: Follows
    generation: int | None
    at_ms: At


class GivenUpEvent(Answer):
    type: Literal["given_up"]
    index: Index
    number: Number
    follows: Follows
    how: Leaving
    at_ms: At


class PositionedEvent(Answer):
    type: Literal["positioned"]
    index: Index
    number: Number
    follows: Follows
    offset: int
    found: Found
    gone_from: int | None
    at_ms: At


class CheckpointEvent(Answer):
    """The partition's share of a checkpoint, or of several committed ones that follow on each other."""

    type: Literal["checkpoint"]
    index: Index
    number: Number
    follows: Follows
    begins: Annotated[int | None, Field(description="The position before its first poll; null: nothing was read yet.")]
    first: int | None
    last: int | None
    next: Annotated[int, Field(description="The offset that was, or would have been, committed.")]
    records: int | None
    outcome: Outcome
    checkpoints: int
    at_ms: At
    until_ms: At


class Side(Answer):
    run_id: str
    ordinal: int
    task: int
    lease: int
    attempt: int
    host: str | None
    event: Annotated[AssignedEvent | GivenUpEvent | PositionedEvent | CheckpointEvent, Field(discriminator="type")]


class Finding(Answer):
    """A contradiction: no correct loop can have recorded this."""

    group: str
    topic: str
    partition: int
    kind: Kind
    start: int
    end: Annotated[int | None, Field(description="Not included; null: however far.")]
    message: str
    sides: Annotated[list[Side], Field(description="What was recorded there, by whom.")]


class Figures(Answer):
    records: Annotated[int, Field(description="Of committed checkpoints that say how many they hold.")]
    committed: int
    aborted: int
    unknown: int
    offsets_without_record: int


class PartitionCheck(Answer):
    group: str
    topic: str
    partition: int
    standing: Standing
    figures: Figures
    attempts: Annotated[int, Field(description="How many attempts told of it.")]
    contradictions: Annotated[int, Field(description="How many there are, also of those that are not listed.")]
    findings: Annotated[list[Finding], Field(description="At most 100: those with the lowest and highest offsets.")]
    doubts: list[str]

    @classmethod
    def of_partition(cls, one: DomainPartition) -> PartitionCheck:
        return cls.of(one, doubts=[doubt.message for doubt in one.doubts])


class PipelineCheck(Answer):
    since: Annotated[datetime | None, Field(description="From when on was replayed; null: all that is kept.")]
    until: datetime
    standing: Annotated[Standing | None, Field(description="The worst of all partitions; null: nothing was told.")]
    figures: Figures
    partitions: list[PartitionCheck]

    @classmethod
    def of_check(cls, check: DomainCheck) -> PipelineCheck:
        return cls(
            since=check.since,
            until=check.until,
            standing=check.standing,
            figures=Figures.of(check.figures),
            partitions=[PartitionCheck.of_partition(one) for one in check.partitions],
        )


class LastCheck(Answer):
    checked_at: datetime
    since: datetime | None
    standing: Standing
    figures: Figures
    partitions: Annotated[dict[Standing, int], Field(description="How many stand how.")]
    doubts: list[str]

    @classmethod
    def of_record(cls, record: DomainRecord) -> LastCheck:
        return cls.of(record)


class FindingRecord(Answer):
    id: str
    found_at: datetime
    finding: Finding

    @classmethod
    def of_record(cls, record: DomainFinding) -> FindingRecord:
        return cls.of(record)


class OffsetLog(Answer):
    last: Annotated[LastCheck | None, Field(description="The newest live check; null: nothing was told yet.")]
    findings: Annotated[list[FindingRecord], Field(description="Every contradiction that is kept, newest first.")]

    @classmethod
    def of_log(cls, log: DomainLog) -> OffsetLog:
        return cls(
            last=None if log.last is None else LastCheck.of_record(log.last),
            findings=[FindingRecord.of_record(one) for one in log.findings],
        )
