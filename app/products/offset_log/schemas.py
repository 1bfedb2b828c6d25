"""The offset log at the edge: checks, contradictions with the events of both sides, and doubts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from app.core.wire import offset_events as events
from app.kit.web.api.shown import Shown, shows
from app.products.offset_log import check, record, verdict
from app.products.offset_log import service as offset_log

INDEX = "Of the attempt's events about the partition; a missing one is a hole."
NUMBER = "The task's ownership number of the partition."
FOLLOWS = "How many checkpoints the event before it stands for; null: it is the first, or not said."
AT = "By the clock of its host."


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


@shows(events.Checkpoint)
class CheckpointEvent:
    """The partition's share of a checkpoint, or of several committed ones that follow on each other."""

    index = INDEX
    number = NUMBER
    follows = FOLLOWS
    begins = "The position before its first poll; null: nothing was read yet."
    next = "The offset that was, or would have been, committed."
    at_ms = AT
    until_ms = AT


@shows(check.Side)
class Side:
    pass


@shows(check.Finding)
class Finding:
    """A contradiction: no correct loop can have recorded this."""

    end = "Not included; null: however far."
    sides = "What was recorded there, by whom."


@shows(verdict.Figures)
class Figures:
    records = "Of committed checkpoints that say how many they hold."


def _messages(doubts: tuple[check.Doubt, ...]) -> list[str]:
    return [doubt.message for doubt in doubts]


@shows(check.PartitionCheck)
class PartitionCheck:
    attempts = "How many attempts told of it."
    contradictions = "How many there are, also of those that are not listed."
    findings = "At most 100: those with the lowest and highest offsets."
    doubts: Annotated[list[str], BeforeValidator(_messages)]


@shows(check.PipelineCheck)
class PipelineCheck:
    since = "From when on was replayed; null: all that is kept."
    standing = "The worst of all partitions; null: nothing was told."
    figures: Shown[verdict.Figures]


@shows(record.CheckRecord)
class LastCheck:
    partitions = "How many stand how."


@shows(offset_log.OffsetLog)
class OffsetLog:
    last = "The newest live check; null: nothing was told yet."
    findings = "Every contradiction that is kept, newest first."
