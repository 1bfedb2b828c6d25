"""The machine that a benchmark ran on, how busy it was, and when: beside every figure."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, object]:
    """To be asked before the measuring begins.

    load_before: the load average of one minute, of all processes. With more of them than cores, it is the others that
    are measured.
    """
    return {
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 1),
    }


def keep(name: str, on: dict[str, object], figures: dict[str, object]) -> None:
    """Print the figures, and write them to bench/results/NAME.json unless `--dry` was given."""
    report = {"machine": on, **figures}
    print(json.dumps(report))
    if "--dry" not in sys.argv:
        (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
