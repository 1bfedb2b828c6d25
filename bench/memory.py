"""The memory of one task at full speed, and behind a slow output: `python -m bench.memory [--minutes M] [--dry]`.

The identity loop, exactly once, in a Spark task; records of 100 bytes, commits every 100 ms, four partitions. The
resident memory of its Python worker, every two seconds:

  full speed   for ten minutes, from a topic that is filled before (compressed, so that it stays in memory)
  slow output  for a minute; the broker lets every producer write two megabytes a second (a quota), and takes its
               records at full speed: what can pile up is in the queues of the clients

Writes bench/results/memory.json; the value of full speed also stands among the goals in latest.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from app.core.pipelines.pipeline import SparkSettings
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.spark import SparkCluster
from bench.identity_loop import definition, spark_instance
from bench.machine import keep, machine
from bench.peers.report import fold_in, say
from bench.peers.work import PARTITIONS, Topics, Work
from tests.support.kafka_tools import run_tool

ROW = "memory of one task at full speed, MB"
WANTED_MB = 400
_EACH_S = 2.0
_WARM_S = 5.0
_BEGINS_WITHIN_S = 120.0
_FASTEST = 850_000
"""Records a second that the source is filled for."""
_SLOW_BYTES_PER_S = 2_000_000
# The outputs of ten minutes would fill a disk, and are not read.
_FORGETS_SOON = {"log.retention.check.interval.ms": "5000"}
_SHORT = {"retention.bytes": "400000000", "segment.bytes": "100000000"}


def _fill(bootstrap_servers: str, topic: str, records: int, partitions: range) -> None:
    Topics(bootstrap_servers).fill(topic, Work(compression="lz4"), records, partitions=partitions)


def filled(bootstrap_servers: str, topic: str, records: int) -> None:
    """Two processes write it, half of the partitions each: one would take twice as long."""
    halves = (range(PARTITIONS // 2), range(PARTITIONS // 2, PARTITIONS))
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_fill, args=(bootstrap_servers, topic, records, half)) for half in halves]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0, f"the source could not be filled: {writer.exitcode}"


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        # It has ended since it was listed; its parent may not have looked yet.
        return ""


def worker() -> psutil.Process:
    """The Python worker that is busiest, of those that this process's children have started."""
    found = [child for child in psutil.Process().children(recursive=True) if "pyspark.daemon" in _command(child)]
    return max(found, key=lambda process: sum(process.cpu_times()[:2]))


def watched(topics: Topics, sink: str, seconds: float) -> dict[str, Any]:
    """Memory of the worker while it writes; None of the first seconds counts."""
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while not sum(topics.ends(sink).values()):
        assert time.monotonic() < deadline, f"nothing came out within {_BEGINS_WITHIN_S:g} s"
        time.sleep(0.2)
    time.sleep(_WARM_S)
    process = worker()
    count, began_at = sum(topics.ends(sink).values()), time.monotonic()
    megabytes: list[float] = []
    grown, grew_at = count, began_at
    while (now := time.monotonic()) < began_at + seconds:
        if (seen := sum(topics.ends(sink).values())) > grown:
            grown, grew_at = seen, now
        megabytes.append(round(process.memory_info().rss / 1e6, 1))
        time.sleep(max(0.0, min(_EACH_S, began_at + seconds - now)))
    tenth = max(1, len(megabytes) // 10)
    assert grew_at >= began_at + seconds - 4 * _EACH_S, f"{sink}: the source was too short"
    return {
        "seconds": seconds,
        "records_per_second": round((sum(topics.ends(sink).values()) - count) / (time.monotonic() - began_at)),
        "largest_mb": max(megabytes),
        "first_tenth_mb": statistics.median(megabytes[:tenth]),
        "last_tenth_mb": statistics.median(megabytes[-tenth:]),
        "megabytes": megabytes,
    }


@contextmanager
def slow_output(bootstrap_servers: str) -> Generator[None]:
    """While the block runs, the broker slows every producer."""
    name = ("--entity-type", "clients", "--entity-default", "--alter")
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap_servers, *name)
    run_tool(*tool, "--add-config", f"producer_byte_rate={_SLOW_BYTES_PER_S}")
    try:
        yield
    finally:
        run_tool(*tool, "--delete-config", "producer_byte_rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="at full speed")
    parser.add_argument("--dry", action="store_true", help="write no result")
    chosen = parser.parse_args()
    on = machine()
    seconds = chosen.minutes * 60
    records = int(_FASTEST * (seconds + 2 * _WARM_S)) // 4_000 * 4_000
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(overrides=_FORGETS_SOON, jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
        SparkCluster.start(cores_per_worker=1) as spark,
    ):
        topics = Topics(kafka.bootstrap_servers)
        source = topics.create("memory-source")
        filled(kafka.bootstrap_servers, source, records)
        say(f"{records:,} records written")

        def run(name: str, seconds: float) -> dict[str, Any]:
            sink = topics.create(f"memory-{name}", **_SHORT)
            task = msgspec.structs.replace(
                definition(source=source, sink=sink), spark=SparkSettings(master=spark.master_url)
            )
            with spark_instance(kafka.bootstrap_servers, task, spark, Path(folder) / name):
                found = watched(topics, sink, seconds)
            topics.delete(sink)
            say(f"{name}: {found['largest_mb']} MB at most, {found['records_per_second']:,} records/s")
            return found

        with slow_output(kafka.bootstrap_servers):
            slow = run("slow", min(60.0, seconds))
        fast = run("fast", seconds)
    keep("memory", on, {"full_speed": fast, "slow_output": slow})
    if not chosen.dry:
        fold_in(ROW, fast["largest_mb"], {"at_most": WANTED_MB, "machine": on})


if __name__ == "__main__":
    sys.exit(main())
