"""A clause of a gate as it stood at one moment."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Standing(StrEnum):
    """UNKNOWN keeps a gate as shut as CLOSED does; only it does not say that anything is to be done."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A clause as it stands. asks: the sentence on the screen. seen: what there is, or what is missing."""

    name: str
    asks: str
    standing: Standing
    seen: str

    @property
    def is_open(self) -> bool:
        return self.standing is Standing.OPEN
