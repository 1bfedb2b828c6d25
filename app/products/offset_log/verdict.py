"""The results of a replay of one partition."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.wire.offset_events import Teller
from app.products.offset_log.stretch import OffsetStretch


class ContradictionKind(StrEnum):
    """The kinds of contradictions, none of which a correct loop causes.

    GAP: later offsets were committed, and these by no task. Their records were not processed.
    OVERLAP: these were committed, or processed, twice.
    WITHOUT_OWNERSHIP: committed by a task that had lost the partition, or had lost and regained it.
    REWOUND: reading began before offsets that the task or an earlier owner had committed already.
    """

    GAP = "gap"
    OVERLAP = "overlap"
    WITHOUT_OWNERSHIP = "without_ownership"
    REWOUND = "rewound"


class Contradiction(msgspec.Struct, frozen=True):
    """Events that a correct loop cannot record. tellers: the attempts that prove it; empty for a gap between owners."""

    kind: ContradictionKind
    stretch: OffsetStretch
    tellers: tuple[Teller, ...]
    message: str


class Doubt(msgspec.Struct, frozen=True):
    """A contradiction if no event were missing. kind None: offsets that could not be compared, without a suspicion."""

    kind: ContradictionKind | None
    stretch: OffsetStretch | None
    message: str


class OffsetLogStanding(StrEnum):
    CONSISTENT = "consistent"
    CANNOT_TELL = "cannot_tell"
    CONTRADICTED = "contradicted"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """records: of checkpoints that count theirs.

    offsets_without_record: committed offsets of these checkpoints without a received record: markers, aborted records,
        or deleted by compaction or retention. Workers cannot distinguish them; the partition's log can.
    """

    records: int = 0
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    offsets_without_record: int = 0


class OffsetLogVerdict(msgspec.Struct, frozen=True, kw_only=True):
    contradictions: tuple[Contradiction, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    figures: Figures = Figures()

    @property
    def standing(self) -> OffsetLogStanding:
        if self.contradictions:
            return OffsetLogStanding.CONTRADICTED
        return OffsetLogStanding.CANNOT_TELL if self.doubts else OffsetLogStanding.CONSISTENT


def summed(figures: Iterable[Figures]) -> Figures:
    parts = list(figures)
    return Figures(**{name: sum(getattr(part, name) for part in parts) for name in Figures.__struct_fields__})
