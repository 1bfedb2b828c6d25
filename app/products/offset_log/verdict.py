"""What a replay concludes of one partition."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.wire.offset_events import Teller
from app.products.offset_log.stretch import Stretch


class Kind(StrEnum):
    """What a correct loop never does.

    GAP: later offsets were committed, and these by nobody. Their records were not processed.
    OVERLAP: these were committed, or processed, twice.
    WITHOUT_OWNERSHIP: committed by a task that did not have the partition any more, or again.
    REWOUND: reading began behind what had been committed already, by itself or by an earlier owner.
    """

    GAP = "gap"
    OVERLAP = "overlap"
    WITHOUT_OWNERSHIP = "without_ownership"
    REWOUND = "rewound"


class Contradiction(msgspec.Struct, frozen=True):
    """No correct loop can have recorded this. `tellers`: whose records say it; none of a gap between owners."""

    kind: Kind
    stretch: Stretch
    tellers: tuple[Teller, ...]
    message: str


class Doubt(msgspec.Struct, frozen=True):
    """What would be a contradiction if everything had been heard. `kind` None: nothing is suspected, and something
    could not be compared."""

    kind: Kind | None
    stretch: Stretch | None
    message: str


class Standing(StrEnum):
    CONSISTENT = "consistent"
    CANNOT_TELL = "cannot_tell"
    CONTRADICTED = "contradicted"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """records: of checkpoints that say how many they hold.

    offsets_without_record: of these, committed with their neighbours though no record came of them: markers, aborted
        records, what compaction or retention took. The workers cannot tell them apart; the partition's log can.
    """

    records: int = 0
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    offsets_without_record: int = 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    contradictions: tuple[Contradiction, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    figures: Figures = Figures()

    @property
    def standing(self) -> Standing:
        if self.contradictions:
            return Standing.CONTRADICTED
        return Standing.CANNOT_TELL if self.doubts else Standing.CONSISTENT


def summed(figures: Iterable[Figures]) -> Figures:
    parts = list(figures)
    return Figures(**{name: sum(getattr(part, name) for part in parts) for name in Figures.__struct_fields__})
