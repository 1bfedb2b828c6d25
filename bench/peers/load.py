"""The load of a measurement's processes on the machine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TypedDict

import psutil


class Used(TypedDict):
    """See `Measured`."""

    broker_cores: float
    system_cores: float
    largest_mb: int


class Load:
    """From its making on: processor time of the broker, and of all other processes that this one has started.

    A process that ends in between is not counted.
    """

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._began_at = time.monotonic()
        self._before = self._seconds()

    def since(self) -> Used:
        seconds = time.monotonic() - self._began_at
        after = self._seconds()
        spent = {pid: (after[pid] - self._before.get(pid, 0.0)) / seconds for pid in after}
        broker = spent.pop(self._broker_pid, 0.0)
        return Used(
            broker_cores=round(broker, 3),
            system_cores=round(sum(spent.values()), 3),
            largest_mb=max((_resident_mb(pid) for pid in spent), default=0),
        )

    def _seconds(self) -> dict[int, float]:
        return processor_s(child.pid for child in psutil.Process().children(recursive=True))


def processor_s(pids: Iterable[int]) -> dict[int, float]:
    """Seconds of a processor that each of these has taken, the kernel's for it included; who is gone is not there."""
    found: dict[int, float] = {}
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            found[pid] = times.user + times.system
    return found


def _resident_mb(pid: int) -> int:
    with suppress(psutil.NoSuchProcess):
        return round(psutil.Process(pid).memory_info().rss / 1e6)
    return 0
