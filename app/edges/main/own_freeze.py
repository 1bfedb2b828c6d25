"""Freeze this server for a drill: its own process is stopped, and thawed by a watchdog beside it."""

from __future__ import annotations

import asyncio
import os

from workers.drills.freezing import NoWatchdogError, Watchdog


async def freeze_self(for_s: float) -> str:
    """Implements app/products/drills/ports.py, FreezeSelf."""
    return await asyncio.to_thread(_freeze, for_s)


def _freeze(for_s: float) -> str:
    if _is_a_shells_job():
        return (
            "this server is the foreground job of a shell, which would take a stopped job from the terminal: "
            "start it under a service manager, or with `setsid fenceline serve`"
        )
    try:
        with Watchdog(for_s=for_s, report={}) as watchdog:
            watchdog.freeze()
    except (NoWatchdogError, OSError) as error:
        return str(error)
    return ""


def _is_a_shells_job() -> bool:
    """Return whether a shell with job control waits for this process, and would notice that it stops."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.getpgrp() == os.getpid() == os.tcgetpgrp(terminal)
    finally:
        os.close(terminal)
