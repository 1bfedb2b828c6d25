"""What the watch over drills asks of the outside: a freeze of our own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

FreezeSelf = Callable[[float], Awaitable[str]]
"""Stops this very process for that many seconds, thawed by a watchdog; why it was not done, empty if it was."""
