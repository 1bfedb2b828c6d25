"""The freshness of an answer, as a sentence for people."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from app.core.observing.snapshot import JournalStatus, ReadingPhase, SnapshotSource
from app.kit.words import duration

_BEHIND_MS = 2_000
_REASONS = 3


class Quality(StrEnum):
    """LIVE: current and complete. PARTIAL: current and incomplete. STALE: outdated. NOTHING: no data."""

    LIVE = "live"
    PARTIAL = "partial"
    STALE = "not live"
    NOTHING = "not known"


class Told(NamedTuple):
    quality: Quality
    sentence: str


def quality_of(journal: JournalStatus, *, now_ms: int) -> Told:
    """Return one sentence, with names in backticks; for a journal without problems, only its source."""
    topic = journal.topic
    behind_ms = now_ms - journal.as_of_ms
    match journal.phase:
        case ReadingPhase.OFF:
            return Told(Quality.NOTHING, f"The journals are not read: {journal.problem}.")
        case ReadingPhase.CONNECTING:
            why = f": {journal.problem}" if journal.problem else ""
            return Told(Quality.NOTHING, f"Connecting to the cluster for `{topic}`{why}.")
        case ReadingPhase.ABSENT:
            return Told(Quality.LIVE, f"The cluster has no `{topic}` yet: no client has used it.")
        case ReadingPhase.CATCHING_UP:
            done = f"{journal.partitions_caught_up} of {journal.partitions} partitions of `{topic}` are read"
            instead = (
                "; the others show their coordinators' answers" if journal.source is SnapshotSource.ADMIN_CALLS else ""
            )
            return Told(Quality.PARTIAL, f"{done}{instead}. {journal.lag_records:,} records remain.")
        case ReadingPhase.REFUSED:
            asked = (
                f" They were asked {duration(behind_ms)} ago." if journal.source is SnapshotSource.ADMIN_CALLS else ""
            )
            return Told(Quality.PARTIAL, f"{_capitalised(journal.problem)}.{asked}")
        case ReadingPhase.LOST:
            age = f" This is the state of {duration(behind_ms)} ago." if journal.as_of_ms >= 0 else ""
            return Told(Quality.STALE, f"Not live: {journal.problem or 'no broker answers'}.{age}")
        case ReadingPhase.LIVE:
            if behind_ms > _BEHIND_MS:
                why = f": {journal.problem}" if journal.problem else ""
                was_so = f"this is the state of {duration(behind_ms)} ago"
                if not journal.lag_records:
                    return Told(Quality.STALE, f"Not live: {was_so}, and `{topic}` was not read completely since{why}.")
                lag = f"{journal.lag_records:,} {'record' if journal.lag_records == 1 else 'records'}"
                are = "is" if journal.lag_records == 1 else "are"
                return Told(Quality.STALE, f"Behind: {was_so}, {lag} of `{topic}` {are} not read yet{why}.")
            if journal.problem:
                return Told(Quality.PARTIAL, _capitalised(journal.problem) + ".")
            return Told(Quality.LIVE, f"Read from `{topic}`.")


def notes_of(journal: JournalStatus) -> list[str]:
    """Return further notes on the reading, a sentence each."""
    if not journal.unreadable:
        return []
    often = sorted(journal.unreadable.items(), key=lambda item: -item[1])
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in often[:_REASONS])
    more = f" and {len(often) - _REASONS} other reasons" if len(often) > _REASONS else ""
    total = sum(journal.unreadable.values())
    return [
        f"{total:,} {'record' if total == 1 else 'records'} of `{journal.topic}` could not be read: {reasons}{more}."
    ]


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
