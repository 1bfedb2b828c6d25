"""REST schemas of double processing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.double_processing.listing import OverlapList
from app.core.double_processing.overlap import CommitSide, Overlap
from app.core.journals.double_processing import OverlapGrade, OverlapPattern
from app.core.observing.schemas.reading import JournalReading
from app.kit.web.api.bodies import Answer


class OverlapCommit(Answer):
    """producer_id null: committed without a producer."""

    offset: int
    at: datetime | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: Annotated[str | None, Field(description="The id that has the producer id now, if known.")]

    @classmethod
    def of_side(cls, side: CommitSide) -> OverlapCommit:
        return cls(
            offset=side.offset,
            at=side.at,
            producer_id=side.producer_id,
            producer_epoch=side.producer_epoch,
            transactional_id=side.transactional_id,
        )


class OverlapFinding(Answer):
    group: str
    topic: str
    partition: int
    pattern: OverlapPattern
    grade: Annotated[OverlapGrade, Field(description="proved and likely are problems; intended: an offset reset.")]
    from_offset: Annotated[int | None, Field(description="The first offset; null: not known.")]
    to_offset: Annotated[int, Field(description="The offset after the last one.")]
    first: OverlapCommit
    second: OverlapCommit
    at: Annotated[datetime | None, Field(description="The newest commit of the finding.")]
    members: Annotated[int, Field(description="Of the group at that time.")]
    journal_partition: int
    journal_offset: Annotated[int, Field(description="Of the later commit in `__consumer_offsets`.")]
    sentence: str
    alternatives: Annotated[list[str], Field(description="Other explanations.")]
    advice: list[str]

    @classmethod
    def of_overlap(cls, one: Overlap) -> OverlapFinding:
        return cls(
            group=one.group,
            topic=one.topic,
            partition=one.partition,
            pattern=one.pattern,
            grade=one.grade,
            from_offset=one.from_offset,
            to_offset=one.to_offset,
            first=OverlapCommit.of_side(one.first),
            second=OverlapCommit.of_side(one.second),
            at=one.at,
            members=one.members,
            journal_partition=one.journal_partition,
            journal_offset=one.journal_offset,
            sentence=one.sentence,
            alternatives=list(one.alternatives),
            advice=list(one.advice),
        )


class OverlapFindings(Answer):
    """items: newest first, at most 500, and 20 of each group."""

    items: list[OverlapFinding]
    counts: Annotated[dict[OverlapGrade, int], Field(description="All findings, including those that are not kept.")]
    reading: JournalReading

    @classmethod
    def of_list(cls, found: OverlapList, *, now: datetime) -> OverlapFindings:
        return cls(
            items=[OverlapFinding.of_overlap(one) for one in found.items],
            counts=found.counts,
            reading=JournalReading.of_status(found.journal, now=now),
        )
