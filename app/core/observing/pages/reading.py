"""The freshness line above every page of a journal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.core.observing.snapshot import JournalStatus, Snapshot
from app.core.observing.wording import Quality, notes_of, quality_of
from app.kit.words import moment


@dataclass(frozen=True, kw_only=True)
class ShownReading:
    """complete_since: the history is complete from there on; None: from its beginning, or not yet."""

    quality: Quality
    sentence: str
    complete_since: datetime | None
    notes: tuple[str, ...]


def reading_of(snapshot: Snapshot, journal: JournalStatus, *, now: datetime) -> ShownReading:
    told = quality_of(journal, now_ms=int(now.timestamp() * 1000))
    notes = notes_of(journal)
    if snapshot.records_of_unwanted_groups and journal is snapshot.group_journal:
        passed = snapshot.records_of_unwanted_groups
        notes.append(f"{passed:,} records of groups outside the setting `observed_groups` were skipped.")
    if snapshot.note:
        notes.append(snapshot.note)
    return ShownReading(
        quality=told.quality,
        sentence=told.sentence,
        complete_since=moment(journal.complete_since_ms),
        notes=tuple(notes),
    )
