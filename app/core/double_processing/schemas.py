"""REST schemas of double processing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.double_processing import overlap
from app.core.double_processing.listing import OverlapList
from app.core.journals.double_processing import OverlapGrade
from app.core.observing.schemas.reading import JournalReading
from app.kit.web.api.bodies import Answer
from app.kit.web.api.shown import Shown, shows


@shows(overlap.CommitSide)
class OverlapCommit:
    """producer_id null: committed without a producer."""

    transactional_id = "The id that has the producer id now, if known."


@shows(overlap.Overlap)
class OverlapFinding:
    """Offsets of a partition that two commits processed, with both commits."""

    grade = "proved and likely are problems; intended: an offset reset."
    from_offset = "The first offset; null: not known."
    to_offset = "The offset after the last one."
    at = "The newest commit of the finding."
    members = "Of the group at that time."
    journal_offset = "Of the later commit in `__consumer_offsets`."
    alternatives = "Other explanations."


class OverlapFindings(Answer):
    """items: newest first, at most 500, and 20 of each group."""

    items: list[Shown[overlap.Overlap]]
    counts: Annotated[dict[OverlapGrade, int], Field(description="All findings, including those that are not kept.")]
    reading: JournalReading

    @classmethod
    def of_list(cls, found: OverlapList, *, now: datetime) -> OverlapFindings:
        return cls.model_validate(
            {
                "items": found.items,
                "counts": found.counts,
                "reading": JournalReading.of_status(found.journal, now=now),
            }
        )
