"""REST schemas of the offset log: checks, contradictions with the events of both sides, and unverifiable ranges."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from app.core.wire import offset_events as events
from app.kit.web.api.shown import Shown, shows
from app.products.offset_log import check, record, verdict
from app.products.offset_log import service as offset_log

INDEX = "Number of the event among the attempt's events of the partition; a skipped number is a missing event."
NUMBER = "The task's ownership number of the partition."
FOLLOWS = "Number of checkpoints of the previous event; null: this is the first event, or not reported."
AT = "Time by the clock of its host."


@shows(events.Assigned)
class AssignedEvent:
    index = INDEX
    number = NUMBER
    follows = FOLLOWS
    at_ms = AT


@shows(events.GivenUp)
class GivenUpEvent:
    index = INDEX
    number = NUMBER
    follows = FOLLOWS
    at_ms = AT


@shows(events.Positioned)
class PositionedEvent:
    index = INDEX
    number = NUMBER
    follows = FOLLOWS
    at_ms = AT


@shows(events.RecordedCheckpoint)
class CheckpointEvent:
    """The partition's share of a checkpoint, or of several consecutive committed ones."""

    index = INDEX
    number = NUMBER
    follows = FOLLOWS
    begins = "Position before its first poll; null: nothing was read yet."
    next = "The offset to commit."
    at_ms = AT
    until_ms = AT


@shows(check.OffsetSide)
class Side:
    pass


@shows(check.OffsetFinding)
class Finding:
    """A contradiction: events that a correct loop cannot record."""

    end = "Excluded; null: without an end."
    sides = "The events there, each with its attempt."


@shows(verdict.Figures)
class Figures:
    records = "Records of the committed checkpoints that count theirs."


def _messages(doubts: tuple[check.Doubt, ...]) -> list[str]:
    return [doubt.message for doubt in doubts]


@shows(check.PartitionCheck)
class PartitionCheck:
    attempts = "Number of attempts with events of it."
    contradictions = "Their number, including those that are not listed."
    findings = "At most 100: those with the lowest and highest offsets."
    doubts: Annotated[list[str], BeforeValidator(_messages)]


@shows(check.PipelineCheck)
class PipelineCheck:
    since = "Start of the replayed range; null: all that is kept."
    standing = "The worst status of all partitions; null: no events."
    figures: Shown[verdict.Figures]


@shows(record.CheckRecord)
class LastCheck:
    partitions = "Number of partitions by status."


@shows(offset_log.OffsetLog)
class OffsetLog:
    last = "The newest live check; null: no events yet."
    findings = "Every contradiction that is kept, newest first."
