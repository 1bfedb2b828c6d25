"""The port of the drill loop: a freeze of the server's own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

FreezeSelf = Callable[[float], Awaitable[str]]
"""Freezes this process for that many seconds; a watchdog thaws it. Returns the reason of a failure, else empty."""
