"""What the watch over drills asks of the outside: a freeze of our own process."""

from __future__ import annotations

from typing import Protocol


class FreezeSelf(Protocol):
    async def __call__(self, for_s: float) -> str:
        """Stop this very process, thawed by a watchdog that stands before; why it was not done, empty if it was."""
        ...
