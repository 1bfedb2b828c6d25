"""bench/results/latest.json: what `make bench` found, kept after every round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec

from app.edges.embedded.maven import KAFKA_VERSION
from bench.machine import RESULTS, machine
from bench.peers.ratios import Ratio, ratio
from tests.support.results import git, is_changed_since_commit

RESULT = RESULTS / "latest.json"
QUICK_RESULT = RESULTS / "quick.json"
"""Too short to be believed by others: it takes no other's place, and makes no page."""
QUIX_PYTHON = Path("build/quix/bin/python")


class Report:
    """The results of this run, and the earlier ones of the meetings and pairs that it did not hold.

    Every meeting and pair says when it was measured, on what machine and of which commit: its ratios are of one run.
    """

    def __init__(self, *, quick: bool, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._path = QUICK_RESULT if quick else RESULT
        before: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() and not quick else {}
        self._stamp = {
            "machine": {
                **machine(),
                "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            },
            "commit": git("rev-parse", "HEAD"),
            "changed_since_commit": is_changed_since_commit(),
            "versions": versions(),
        }
        self._found: dict[str, Any] = {
            "quick": quick,
            **self._stamp,
            "ratios": before.get("ratios", {}),
            "goals": before.get("goals", {}),
            "meetings": before.get("meetings", {}),
            "pairs": before.get("pairs", {}),
            "values": before.get("values", {}),
        }

    def held(self, kind: str, name: str, found: dict[str, Any]) -> None:
        """The results of a meeting (`meetings`) or a pair (`pairs`) so far."""
        self._found[kind][name] = {**self._stamp, **found}

    def goal(self, row: str, ours: Sequence[float], theirs: Sequence[float], **wanted: float | None) -> Ratio:
        """The ratio of a row, round by round. Raises ValueError without a round."""
        found = ratio(ours, theirs)
        self._found["ratios"][row] = found.median
        self._found["goals"][row] = {**wanted, "ratio": found}
        say(f"  {row}: {found.median} ({found.low} to {found.high}), wanted {wanted['at_least']}")
        return found

    def keep(self) -> None:
        if self._is_kept:
            self._path.write_bytes(msgspec.json.format(msgspec.json.encode(self._found), indent=1) + b"\n")


def versions() -> dict[str, str]:
    quix = subprocess.run(
        [QUIX_PYTHON, "-c", "import importlib.metadata as m; print(m.version('quixstreams'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        "Kafka and Kafka Streams": KAFKA_VERSION,
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "PySpark": version("pyspark"),
        "Quix Streams": quix.stdout.strip(),
        "Python": sys.version.split()[0],
    }


def fold_in(row: str, value: float, result: dict[str, Any]) -> None:
    """A goal's row that another benchmark has measured, beside the ratios; `result` is all that it found."""
    found: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {"ratios": {}}
    found["ratios"][row] = value
    found.setdefault("values", {})[row] = result
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def fold_goal_in(row: str, found: Ratio, **wanted: float) -> None:
    """A goal's row with its ratio, of another benchmark."""
    report: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {"ratios": {}}
    report["ratios"][row] = found.median
    report.setdefault("goals", {})[row] = {**wanted, "ratio": found}
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
