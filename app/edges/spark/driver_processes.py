"""The two processes of a driver on this host: spark-submit's JVM and its child, the Python driver."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import psutil

SAME_START_S = 2.0
"""Start times are clock ticks since boot on both sides; they may differ by rounding, not between processes."""


def living(
    folder: Path, *, jvm_pid: int | None, python_pid: int | None, started_at: datetime | None, is_claimed: bool
) -> list[psutil.Process]:
    """A driver's living processes; by the recorded pids, else by their arguments.

    started_at: before the claim spark-submit's start, since then the Python driver's.
    """
    if jvm_pid is None and python_pid is None:
        return search(folder)
    jvm = find_submitted(jvm_pid, folder=folder, started_at=None if is_claimed else started_at)
    python = find(python_pid, folder=folder, started_at=started_at if is_claimed else None)
    found = [process for process in (python, jvm) if process is not None]
    if jvm is not None and python is None:
        # Not claimed yet: the Python driver is the JVM's child.
        found = [*children(jvm, folder=folder), *found]
    return found


def find(pid: int | None, *, folder: Path, started_at: datetime | None = None) -> psutil.Process | None:
    """Return the living process `pid` if it is a driver of `folder`, started at `started_at` if that is given."""
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        if not _belongs(process, folder):
            return None
        if started_at is not None and not _has_started(process, started_at):
            return None
    except psutil.Error:
        return None
    return process


def find_submitted(pid: int | None, *, folder: Path, started_at: datetime | None) -> psutil.Process | None:
    """Return the living spark-submit, or the JVM that it becomes, if `pid` is that of `folder`.

    It takes several exec calls, and during each there is a moment in which Linux shows no arguments at all
    (get_mm_cmdline in fs/proc/base.c). Then its start time identifies it, which exec does not change.
    """
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        words = process.cmdline()
        is_ours = names(words, folder) if words else started_at is not None and _has_started(process, started_at)
    except psutil.Error:
        return None
    return process if is_ours else None


def search(folder: Path) -> list[psutil.Process]:
    """Return all living driver processes of `folder`, if a server died before it recorded the pids."""
    own = os.getpid()
    return [process for process in psutil.process_iter() if process.pid != own and _belongs(process, folder)]


def children(jvm: psutil.Process, *, folder: Path) -> list[psutil.Process]:
    """Return the driver's processes below spark-submit's JVM."""
    try:
        return [child for child in jvm.children() if _belongs(child, folder)]
    except psutil.Error:
        return []


def is_python(process: psutil.Process) -> bool:
    """Return whether this is the Python driver, which handles SIGTERM, and not the JVM, which SIGTERM would end."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return bool(words) and Path(words[0]).name.startswith("python")


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Signal this process only, never a later one with its pid (psutil compares start times)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _has_started(process: psutil.Process, at: datetime) -> bool:
    return abs(process.create_time() - at.timestamp()) <= SAME_START_S


def _belongs(process: psutil.Process, folder: Path) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return names(process.cmdline(), folder)
    except psutil.Error:
        return False


def names(words: Sequence[str], folder: Path) -> bool:
    """Return whether a process with these arguments has a file of the folder."""
    return any(word.startswith(f"{folder}/") for word in words)
