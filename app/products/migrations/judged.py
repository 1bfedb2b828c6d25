"""A condition of a gate with its status at one moment."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ClauseStanding(StrEnum):
    """UNKNOWN closes a gate as CLOSED does, but requires no action."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A condition as judged. asks: the requirement, as the page shows it. seen: the finding, or what is missing."""

    name: str
    asks: str
    standing: ClauseStanding
    seen: str

    @property
    def is_open(self) -> bool:
        return self.standing is ClauseStanding.OPEN
