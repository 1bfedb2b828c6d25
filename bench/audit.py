"""How long an audit of ten million ids takes on this machine, and in how much memory.

`make bench-audit` (or `python -m bench.audit [--ids N] [--dry]`) prints the figures and writes them to
bench/results/audit.json. One broker, four partitions each of source and sink, JSON of about 100 bytes, a local master
with two cores. What was planted must be found, or the run fails. Memory: the largest sums of resident sizes, of the
Python processes and of the JVM.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec
import psutil

from app.domain.audits.result import AuditResult
from app.embedded.java import find_java
from app.embedded.kafka import KafkaCluster
from app.wire.audit import AuditOrder, AuditOutcome
from bench.audit_topics import DOUBLED, LOST, fill, specification
from bench.machine import keep, machine

_DRIVER = "import sys; from workers.spark.audit_driver import main; sys.exit(main())"
_MB = 1024 * 1024


class Memory:
    """The largest resident sizes of a process and its children, looked at four times a second."""

    def __init__(self, pid: int) -> None:
        self.python_mb = self.jvm_mb = 0
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.25):
            try:
                everyone = [self._process, *self._process.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            sizes = [size for size in map(_size_mb, everyone) if size is not None]
            self.jvm_mb = max(self.jvm_mb, sum(size for is_java, size in sizes if is_java))
            self.python_mb = max(self.python_mb, sum(size for is_java, size in sizes if not is_java))


def _size_mb(process: psutil.Process) -> tuple[bool, int] | None:
    """Whether it is Java, and how large it is; None: it has ended."""
    try:
        return "java" in process.name(), process.memory_info().rss // _MB
    except psutil.NoSuchProcess:
        return None


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


def carry_out(ids: int, bootstrap_servers: str) -> tuple[AuditResult, float, Memory]:
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
            memory = Memory(driver.pid)
            driver.wait()
            memory.close()
        took_s = time.monotonic() - began
        told = msgspec.json.decode(outcome.read_bytes(), type=AuditOutcome)
    assert told.result is not None, told.message
    return told.result, took_s, memory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", type=int, default=10_000_000)
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    on = machine()
    with KafkaCluster.start() as cluster:
        fill(cluster.bootstrap_servers, arguments.ids)
        result, took_s, memory = carry_out(arguments.ids, cluster.bootstrap_servers)
    counts = result.counts
    assert (counts.lost.ids, counts.duplicated.ids, counts.unexpected.ids) == (LOST, DOUBLED, 0), counts
    keep(
        "audit",
        on,
        {
            "ids": arguments.ids,
            "records": counts.inputs + counts.outputs,
            "audit_s": round(result.duration_ms / 1000, 1),
            "from_start_to_end_s": round(took_s, 1),
            "ids_per_s": round(arguments.ids / (result.duration_ms / 1000)),
            "python_mb": memory.python_mb,
            "jvm_mb": memory.jvm_mb,
            "lost": counts.lost.ids,
            "duplicated": counts.duplicated.ids,
        },
    )


if __name__ == "__main__":
    main()
