"""How long an audit of ten million ids takes on this machine, and in how much memory and disk.

`make bench-audit` (or `python -m bench.audit [--ids N] [--dry]`) prints the figures and writes them to
bench/results/audit.json, or audit_3m.json for three million. One broker, four partitions each of source and sink, JSON
of about 100 bytes, a local master with two cores. What was planted must be found, or the run fails. Memory: the largest
sums of resident sizes, of the Python processes and of the JVM. Disk: the most that lay in Spark's local folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import KafkaCluster
from app.products.audits.result import AuditResult, RangeRead
from app.products.audits.wire import AuditOrder, AuditOutcome
from bench.audit_topics import DOUBLED, LOST, fill, specification
from bench.machine import keep, machine
from workers.audit.splits import SplitPlan, splits_of
from workers.spark.audit_job import buckets_of

_DRIVER = "import sys; from workers.spark.audit_driver import main; sys.exit(main())"
_MB = 1024 * 1024
_MILLION = 1_000_000


class Taken:
    """The largest resident sizes of a process and its children, and of what lies in a folder, four times a second."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.python_mb = self.jvm_mb = self.disk_mb = 0
        self._folder = folder
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.25):
            self.disk_mb = max(self.disk_mb, _folder_mb(self._folder))
            try:
                everyone = [self._process, *self._process.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            sizes = [size for size in map(_size_mb, everyone) if size is not None]
            self.jvm_mb = max(self.jvm_mb, sum(size for is_java, size in sizes if is_java))
            self.python_mb = max(self.python_mb, sum(size for is_java, size in sizes if not is_java))


def _size_mb(process: psutil.Process) -> tuple[bool, int] | None:
    """True if it is Java, and its size; None: it has ended."""
    try:
        return "java" in process.name(), process.memory_info().rss // _MB
    except psutil.NoSuchProcess:
        return None


def _folder_mb(folder: Path) -> int:
    size_bytes = 0
    for path in folder.rglob("*"):
        # Spark's files come and go.
        with contextlib.suppress(FileNotFoundError):
            size_bytes += path.stat().st_size
    return size_bytes // _MB


def environment(folder: Path, *more: str) -> dict[str, str]:
    """In which a driver that is started as plain Python finds a local master of two cores."""
    return {
        **os.environ,
        "JAVA_HOME": str(find_java(may_fetch=False).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join(
            (
                "--master local[2,2] --driver-memory 1g --conf spark.ui.enabled=false",
                f"--conf spark.local.dir={folder} --conf spark.driver.host=127.0.0.1",
                *more,
                "pyspark-shell",
            )
        ),
    }


def carry_out(ids: int, bootstrap_servers: str) -> tuple[AuditResult, float, Taken]:
    """The driver in a process of its own; its result, the seconds from start to end, and what it took."""
    order = AuditOrder(
        fenceline_version="bench",
        specification=specification(ids),
        client_config={"bootstrap.servers": bootstrap_servers},
    )
    with tempfile.TemporaryDirectory() as folder:
        handed, outcome = Path(folder) / "order.json", Path(folder) / "outcome.json"
        handed.touch(mode=0o600)
        handed.write_bytes(msgspec.json.encode(order))
        began = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-c", _DRIVER, "--specification", str(handed), "--outcome", str(outcome)],
            env=environment(Path(folder)),
        ) as driver:
            taken = Taken(driver.pid, Path(folder))
            driver.wait()
            taken.close()
        took_s = time.monotonic() - began
        told = msgspec.json.decode(outcome.read_bytes(), type=AuditOutcome)
    assert told.result is not None, told.message
    return told.result, took_s, taken


def tasks_of(ranges: Sequence[RangeRead], ids: int) -> dict[str, int]:
    """How many tasks read these offsets, and how many compare them."""
    plan, bounds = SplitPlan(ranges=tuple(ranges)), specification(ids).bounds
    return {
        "read_tasks": len(list(splits_of(plan, offsets_per_task=bounds.offsets_per_task))),
        "compare_tasks": buckets_of(plan, specification(ids)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", type=int, default=10 * _MILLION)
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    on = machine()
    with KafkaCluster.start() as cluster:
        fill(cluster.bootstrap_servers, arguments.ids)
        result, took_s, taken = carry_out(arguments.ids, cluster.bootstrap_servers)
    counts = result.counts
    assert (counts.lost.ids, counts.duplicated.ids, counts.unexpected.ids) == (LOST, DOUBLED, 0), counts
    audit_s = result.duration_ms / 1000
    keep(
        "audit" if arguments.ids == 10 * _MILLION else f"audit_{arguments.ids // _MILLION}m",
        on,
        {
            "ids": arguments.ids,
            "records": counts.inputs + counts.outputs,
            **tasks_of(result.ranges, arguments.ids),
            "audit_s": round(audit_s, 1),
            "from_start_to_end_s": round(took_s, 1),
            "ids_per_s": round(arguments.ids / audit_s),
            "python_mb": taken.python_mb,
            "jvm_mb": taken.jvm_mb,
            "disk_mb": taken.disk_mb,
            "lost": counts.lost.ids,
            "duplicated": counts.duplicated.ids,
        },
    )


if __name__ == "__main__":
    main()
