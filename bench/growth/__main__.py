"""`python -m bench.growth [--only pipelines|tasks|ids|retention] [--settle S] [--seconds S] [--dry]`.

Prints the figures and writes them to bench/results/growth.json; what was not measured this time stays there as it was.
About eight minutes for all of it. `python -m bench.growth.page` then makes docs/measured/growth.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.growth.growths import GROWTHS
from bench.growth.retention import retention
from bench.machine import RESULTS, keep, machine

_RETENTION = "retention"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*GROWTHS, _RETENTION])
    parser.add_argument("--settle", type=float, default=6.0, help="seconds after each step before it is measured")
    parser.add_argument("--seconds", type=float, default=15.0, help="for which each step is measured")
    parser.add_argument("--dry", action="store_true", help="print only")
    said = parser.parse_args()
    parts: dict[str, Callable[[], dict[str, object]]] = {
        **{name: partial(_grown, name, said.settle, said.seconds) for name in GROWTHS},
        _RETENTION: _kept,
    }
    path = RESULTS / "growth.json"
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    figures.pop("machine", None)
    for name, measure in parts.items():
        if said.only in (None, name):
            on = machine()
            figures[name] = {"machine": on, **measure()}
            # After each part, so that a later one that fails takes nothing with it.
            keep("growth", on, figures)


def _grown(name: str, settle_s: float, measure_s: float) -> dict[str, object]:
    return {"measured_s": measure_s, **GROWTHS[name](settle_s, measure_s)}


def _kept() -> dict[str, object]:
    print("retention: days of rows, and its turns", file=sys.stderr, flush=True)
    return {"tables": retention()}


if __name__ == "__main__":
    main()
