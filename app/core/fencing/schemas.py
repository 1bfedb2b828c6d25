"""REST schemas of fencing events."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from app.core.fencing import evidence, record, story
from app.core.fencing import fencing_event as domain_event
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKind
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
    """A member that joined the group, or left it, in `__consumer_offsets`. members: the number of members
    afterwards.
    """


@shows(evidence.MarkerRecord)
class MarkerRecord:
    """The marker of a transaction in one partition."""

    type: Annotated[Literal["ABORT", "COMMIT"], BeforeValidator(_name)]


@shows(evidence.ClientWord)
class ClientWord:
    """A report of a Fenceline task."""


@shows(evidence.CommandWord)
class CommandWord:
    """A Fenceline command on this id; producer_id and producer_epoch are the broker's answer."""


@shows(evidence.LeaseWord)
class LeaseWord:
    """A lease of the query that has the id. at_ms: the claim of its driver."""


@shows(record.FencingPlace)
class FencingPlace:
    """The owner of the victim; all null for foreign clients."""

    group_id = "The group of the member, or of the pipeline."


class Verdict(Answer):
    """The verdict about a loss. at: by the clock of the record's broker or client."""

    cause: FencingCause
    is_fencing: Annotated[bool, Field(description="False for events that only look like it, such as a clean restart.")]
    confidence: Confidence
    at: datetime
    sentence: str
    alternatives: Annotated[list[FencingCause], Field(description="Other causes that the evidence allows.")]


class Correction(Verdict):
    """The verdict until `until`, when more evidence came."""

    until: datetime


class FencingEvent(Verdict):
    """A loss and its current verdict. `producer_id` and `producer_epoch` are those of the victim."""

    id: str
    cluster: Annotated[str | None, Field(description="Its registered name; null if it is no longer registered.")]
    kafka_cluster_id: str
    transactional_id: Annotated[str, Field(description="Empty if no coordinator knows one.")]
    producer_id: int
    producer_epoch: int
    kind: Annotated[FencingKind, Field(description="The kind of loss.")]
    place: Shown[record.FencingPlace]
    told_at: Annotated[datetime, Field(description="The time of its first record, by the server's clock.")]
    changed_at: datetime

    @classmethod
    def of_line(cls, line: FencingLine) -> FencingEvent:
        return cls.of(line.record.event.key, **_told(line))


@shows(story.Moment)
class Moment:
    """One piece of the evidence in words: its side, the action, and its source."""

    is_own_word = "A report of the victim itself."


class FencingEventDetail(FencingEvent):
    """With the evidence and the earlier verdicts, oldest first."""

    evidence: list[Shown[evidence.Evidence]]
    moments: list[Shown[story.Moment]]
    runbook: Annotated[list[str], Field(description="The next steps, in this order.")]
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
    """Newest first, by the time of the event."""


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


def _verdict(verdict: domain_event.FencingVerdict) -> dict[str, object]:
    return {
        "cause": verdict.cause,
        "is_fencing": verdict.cause.is_fencing,
        "confidence": verdict.confidence,
        "at": moment_of_ms(verdict.at_ms),
        "sentence": verdict.sentence,
        "alternatives": verdict.alternatives,
    }
