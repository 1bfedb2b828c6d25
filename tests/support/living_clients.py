"""Clients of Kafka that nobody has let go of: each has a main thread of librdkafka in this process."""

from __future__ import annotations

import gc
from pathlib import Path

_MAIN_THREAD = "rdk:main"


def living_clients() -> int:
    """How many there are when everything that nobody holds has been collected."""
    gc.collect()
    return sum(_name(task) == _MAIN_THREAD for task in Path("/proc/self/task").iterdir())


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
