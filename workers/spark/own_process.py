"""The start time of this process, which distinguishes it from a later process with the same pid."""

from __future__ import annotations

import os
from pathlib import Path


def started_at_ms() -> int:
    """Milliseconds since 1970, from /proc as psutil computes it; 0 where there is no /proc."""
    try:
        # Field 22 of stat(5), counted behind the command name, which may hold spaces and brackets.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        boot_s = next(
            int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
        )
    except (OSError, StopIteration):
        return 0
    return int((boot_s + ticks / os.sysconf("SC_CLK_TCK")) * 1000)
