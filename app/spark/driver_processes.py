"""The two processes of a driver on this host: spark-submit's JVM and its child, the Python driver."""

from __future__ import annotations

import contextlib
import os
import signal
from datetime import datetime
from pathlib import Path

import psutil

SAME_START_S = 2.0
"""Start times come from clock ticks since boot on both sides; they may differ by rounding, not by a process."""


def find(pid: int | None, *, folder: Path, started_at: datetime | None = None) -> psutil.Process | None:
    """The living process `pid` if it is a driver of `folder`, started at `started_at` when that is given."""
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        if not _belongs(process, folder):
            return None
        if started_at is not None and abs(process.create_time() - started_at.timestamp()) > SAME_START_S:
            return None
    except psutil.Error:
        return None
    return process


def search(folder: Path) -> list[psutil.Process]:
    """All living driver processes of `folder`: for a server that died between submitting and writing the pids down."""
    own = os.getpid()
    return [process for process in psutil.process_iter() if process.pid != own and _belongs(process, folder)]


def children(jvm: psutil.Process, *, folder: Path) -> list[psutil.Process]:
    """The driver's processes below spark-submit's JVM."""
    try:
        return [child for child in jvm.children() if _belongs(child, folder)]
    except psutil.Error:
        return []


def is_python(process: psutil.Process) -> bool:
    """Whether this is the Python driver, which handles SIGTERM, and not the JVM, which would be torn down by it."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return bool(words) and Path(words[0]).name.startswith("python")


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Signal this process and nobody who got its pid since (psutil compares start times)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _belongs(process: psutil.Process, folder: Path) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        marker = f"{folder}/"
        return any(word.startswith(marker) for word in process.cmdline())
    except psutil.Error:
        return False
