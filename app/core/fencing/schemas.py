"""Fencing events at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from app.core.fencing import evidence, record, story
from app.core.fencing import fencing_event as domain_event
from app.core.fencing.fencing_event import Cause, Confidence, FencingKind
from app.core.fencing.runbook import runbook
from app.core.fencing.service.feed import FencingLine
from app.core.journals import live_transactions
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.schemas.transactions import StateWord
from app.kit.page import Page
from app.kit.storable import moment_of_ms
from app.kit.web.api.bodies import Answer
from app.kit.web.api.shown import Shown, shows, stands_for


def _word(status: TransactionStatus) -> str:
    return status.word


def _name(type_: evidence.MarkerType) -> str:
    return type_.name


@shows(live_transactions.RecordedState)
class RecordedState:
    """A record of `__transaction_state`. partitions: those of an open transaction."""

    status: Annotated[StateWord, BeforeValidator(_word)]


@shows(evidence.CoordinatorRecord)
class CoordinatorRecord:
    """A record of the id, in a partition of `__transaction_state`."""


@shows(evidence.GroupRecord)
class GroupRecord:
    """A generation or member epoch that the group reached, in `__consumer_offsets`."""


@shows(evidence.MemberRecord)
class MemberRecord:
    """A member that joined the group, or left it, in `__consumer_offsets`. members: how many the group has after it."""


@shows(evidence.MarkerRecord)
class MarkerRecord:
    """The end of a transaction as a partition has it."""

    type: Annotated[Literal["ABORT", "COMMIT"], BeforeValidator(_name)]


@shows(evidence.ClientWord)
class ClientWord:
    """What one of our tasks felt."""


@shows(evidence.CommandWord)
class CommandWord:
    """A command of ours on this id; producer_id and producer_epoch are what the broker answered."""


@shows(record.FencingPlace)
class FencingPlace:
    """Whose loss it was; all null for clients that are not ours."""

    group_id = "The group of the member, or of the pipeline."


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
    place: Shown[record.FencingPlace]
    told_at: Annotated[datetime, Field(description="When it was first written down, by our clock.")]
    changed_at: datetime

    @classmethod
    def of_line(cls, line: FencingLine) -> FencingEvent:
        return cls.of(line.record.event.key, **_told(line))


@shows(story.Moment)
class Moment:
    """One piece of the evidence in words: whose moment it is, what was done, and where that is written."""

    is_own_word = "The producer that was ended said it itself."


class FencingEventDetail(FencingEvent):
    """With what proves it, and what was said of it before, oldest first."""

    evidence: list[Shown[evidence.Evidence]]
    moments: list[Shown[story.Moment]]
    runbook: Annotated[list[str], Field(description="What to do next, in this order.")]
    corrections: list[Correction]

    @classmethod
    def of_line(cls, line: FencingLine) -> FencingEventDetail:
        told = line.record
        corrections = [{**_verdict(one.verdict), "until": one.until} for one in told.corrections]
        return cls.of(
            told.event.key,
            **_told(line),
            evidence=told.event.evidence,
            moments=story.story_of(told.event).moments,
            runbook=runbook(told.event.verdict.cause),
            corrections=corrections,
        )


stands_for(FencingLine, FencingEvent, FencingEvent.of_line)


@shows(Page[FencingLine])
class FencingPage:
    """Newest first, by when it happened."""


def _told(line: FencingLine) -> dict[str, object]:
    told = line.record
    return {
        "id": told.id,
        "cluster": line.cluster,
        "place": told.place,
        "told_at": told.told_at,
        "changed_at": told.changed_at,
        **_verdict(told.event.verdict),
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
