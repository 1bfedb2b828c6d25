"""`python -m bench.files [--rounds N] [--seconds S] [--ours] [--dry]`: records into Avro files, by user and hour.

One broker, four partitions, JSON records of about 200 bytes, 1,000 users, two hours. In turn, the order changing from
round to round: a file pipeline in two Spark tasks (exactly once, references in transactions, schema inferred), the same
with Python objects (the setting `native_records` is off), and, without --ours, Spark's own Kafka source and Avro writer
on two cores (a schema given to it, no references). All write zstandard into a local folder. A rate is of whole commits:
the records of all that were committed after the first one, by the time from the first to the last. Ours are counted by
their references as a `read_committed` reader sees them, Spark's by its own progress events. Afterwards every file that
a reference names is read and every id counted: once, none lost.

Every round goes to bench/results/files.json, with the memory of the largest task.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import msgspec
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.pipelines.pipeline import ByDate, ByField, ByHour, FileSink, SparkSettings
from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.maven import SPARK_KAFKA_JARS, ensure_jars
from app.edges.embedded.spark import SparkCluster
from bench.identity_loop import PARTITIONS, create_topics, definition, spark_instance
from bench.machine import keep, machine
from bench.peers.ratios import ratio
from bench.peers.report import say

NATIVE, PYTHON, SPARK = "fenceline", "fenceline, python objects", "spark avro"
USERS = 1_000
CORES = 2
_FROM_MS = 1_767_225_600_000
_HOURS_MS = 2 * 3_600_000
_BEGINS_WITHIN_S = 180.0
_ROTATE_MS = 10_000


class Commit(NamedTuple):
    """So many records were committed, seen at that time (seconds since 1970)."""

    records: int
    at: float


def value_of(number: int) -> bytes:
    """The record with this number, the same each time."""
    return msgspec.json.encode(
        {
            "id": f"{number:012d}",
            "user": f"user-{number * 7919 % USERS:04d}",
            "at": _time(_FROM_MS + number * 37 % _HOURS_MS),
            "amount": number % 100_000 / 100,
            "quantity": number % 10,
            "place": f"place {number % 50}",
            "paid": number % 3 == 0,
            "note": "n" * (20 + number % 40),
        }
    )


def _time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def fill(bootstrap_servers: str, topic: str, records: int) -> int:
    """Evenly over the partitions; returns the bytes of all values."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "compression.type": "lz4",
        }
    )
    size = 0
    for number in range(records):
        value = value_of(number)
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return size


def rate(commits: list[Commit]) -> float:
    """Records a second of whole commits."""
    assert len(commits) > 1, f"{len(commits)} commits are no rate; run for longer"
    return sum(commit.records for commit in commits[1:]) / (commits[-1].at - commits[0].at)


def watch(poll: Callable[[], list[Commit]], seconds: float) -> list[Commit]:
    """Commits until `seconds` after the first one."""
    deadline, found = time.monotonic() + _BEGINS_WITHIN_S, list[Commit]()
    while time.monotonic() < deadline:
        came = poll()
        if came and not found:
            deadline = time.monotonic() + seconds
        found += came
    return found


class References:
    """The records that a `read_committed` consumer of the sink topic sees."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "bench-files",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])

    def poll(self) -> list[Commit]:
        messages = self._consumer.consume(10_000, 0.2)
        now = time.time()
        came = [msgspec.json.decode(message.value() or b"", type=dict[str, Any]) for message in messages]
        self.seen += came
        return [Commit(sum(one["records"] for one in came), now)] if came else []

    def close(self) -> None:
        self._consumer.close()


def judge(root: Path, references: list[dict[str, Any]]) -> dict[str, int]:
    """Every id of the committed files, against the offsets that were committed with them."""
    ids: Counter[str] = Counter()
    ends: dict[int, int] = {}
    for reference in references:
        for span in reference["inputs"]:
            ends[span["partition"]] = max(ends.get(span["partition"], 0), span["last_offset"] + 1)
        with (root / reference["path"]).open("rb") as file:
            ids.update(str(record["id"]) for record in fastavro.reader(file))  # type: ignore[index, call-overload]
    expected = {f"{offset * PARTITIONS + partition:012d}" for partition, end in ends.items() for offset in range(end)}
    found = {
        "files": len(references),
        "records": ids.total(),
        "lost": len(expected - ids.keys()),
        "duplicated": sum(count > 1 for count in ids.values()),
        "unexpected": len(ids.keys() - expected),
    }
    assert sum(found[name] for name in ("lost", "duplicated", "unexpected")) == 0, found
    return found


def workers_mb() -> float:
    """The largest Python worker of this process's children."""
    sizes = [0.0]
    for child in psutil.Process().children(recursive=True):
        try:
            if "pyspark.daemon" in " ".join(child.cmdline()):
                sizes.append(child.memory_info().rss / 1e6)
        except psutil.NoSuchProcess:
            continue
    return max(sizes)


def ours(
    kafka: KafkaCluster, spark: SparkCluster, source: str, sink: str, folder: Path, seconds: float, *, native: bool
) -> Any:
    create_topics(kafka.bootstrap_servers, sink)
    root = folder / "root"
    chosen = msgspec.structs.replace(
        definition(source=source, sink=sink, tasks=CORES, master=spark.master_url),
        spark=SparkSettings(master=spark.master_url, executor_memory_mb=512),
        files=FileSink(
            root=root.as_uri(),
            partition_by=(ByField(name="user", field="user"), ByDate(name="date"), ByHour(name="hour")),
            event_time="at",
            rotate_ms=_ROTATE_MS,
        ),
    )
    references = References(kafka.bootstrap_servers, sink)
    largest_mb = 0.0

    def poll() -> list[Commit]:
        nonlocal largest_mb
        largest_mb = max(largest_mb, workers_mb())
        return references.poll()

    with spark_instance(kafka.bootstrap_servers, chosen, spark, folder, native_records=native):
        commits = watch(poll, seconds)
    references.close()
    return {
        "records_per_second": round(rate(commits)),
        "commits": len(commits),
        "largest_task_mb": round(largest_mb, 1),
        "judged": judge(root, references.seen),
    }


def sparks(kafka: KafkaCluster, source: str, folder: Path, seconds: float) -> Any:
    jars = ",".join(str(jar) for name in (SPARK_KAFKA_JARS, "spark-avro-4.2.0") for jar in ensure_jars(name))
    program = str(Path(__file__).parent / "spark_avro.py")
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(may_fetch=False).home),
        "PYSPARK_PYTHON": sys.executable,
    }
    arguments = [kafka.bootstrap_servers, source, str(folder), str(CORES), "1500000", jars]
    told = folder / "progress"
    with told.open("wb") as into, (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, program, *arguments], stdout=into, stderr=log, env=environment)
    read = 0

    def poll() -> list[Commit]:
        nonlocal read
        assert process.poll() is None, (folder / "log").read_text(errors="replace")[-2000:]
        time.sleep(0.2)
        *whole, _rest = told.read_text().split("\n")
        came = [msgspec.json.decode(line, type=Commit) for line in map(_as_commit, whole[read:])]
        read = len(whole)
        return [commit for commit in came if commit.records]

    try:
        commits = watch(poll, seconds)
    finally:
        process.terminate()
        process.wait()
    return {"records_per_second": round(rate(commits)), "commits": len(commits)}


def _as_commit(line: str) -> bytes:
    told = msgspec.json.decode(line, type=dict[str, float])
    return msgspec.json.encode([int(told["records"]), told["at"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a measurement, after the first commit")
    parser.add_argument("--records", type=int, default=16_000_000)
    parser.add_argument("--ours", action="store_true", help="only ours, in both ways, and write no result")
    parser.add_argument("--dry", action="store_true", help="write no result")
    chosen = parser.parse_args()
    on = machine()
    rounds: dict[str, list[Any]] = {NATIVE: [], PYTHON: []} | ({} if chosen.ours else {SPARK: []})
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as place,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
        SparkCluster.start(cores_per_worker=CORES) as spark,
    ):
        create_topics(kafka.bootstrap_servers, "files-source")
        size = fill(kafka.bootstrap_servers, "files-source", chosen.records)
        say(f"{chosen.records:,} records written, {size / chosen.records:.0f} bytes each")
        for number in range(chosen.rounds):
            for name in list(rounds)[:: -1 if number % 2 else 1]:
                folder = Path(place) / f"{name.replace(', ', '-').replace(' ', '-')}-{number}"
                folder.mkdir()
                if name == SPARK:
                    found = sparks(kafka, "files-source", folder, chosen.seconds)
                else:
                    sink = f"{folder.name}-sink"
                    found = ours(kafka, spark, "files-source", sink, folder, chosen.seconds, native=name == NATIVE)
                rounds[name].append(found)
                say(f"{name}, round {number + 1}: {found}")
    record_bytes = size / chosen.records
    found: dict[str, Any] = {
        "users": USERS,
        "record_bytes": record_bytes,
        "rounds": rounds,
        **summary(rounds, record_bytes),
    }
    if chosen.ours:
        say(f"{found['records_per_second']}, with and without native records: {found['to_python']}")
    else:
        keep("files", on, found)


def summary(rounds: Mapping[str, Sequence[Any]], record_bytes: float) -> dict[str, Any]:
    """The figures of all rounds: medians, in records of this size and in MB of JSON; ours divided by Spark's, where
    that was measured, and by ours with Python objects; the largest task.
    """
    rates = {name: [one["records_per_second"] for one in its] for name, its in rounds.items()}
    medians = {name: statistics.median(its) for name, its in rates.items()}

    def by(other: str) -> dict[str, float]:
        if other not in rates:
            return {}
        found = ratio(rates[NATIVE], rates[other])
        return {"median": found.median, "low": found.low, "high": found.high, "other": medians[other]}

    return {
        "records_per_second": medians,
        "mb_per_second": {name: round(rate * record_bytes / 1e6, 1) for name, rate in medians.items()},
        "ratio": by(SPARK),
        "to_python": by(PYTHON),
        "largest_task_mb": max(one["largest_task_mb"] for one in rounds[NATIVE]),
    }


if __name__ == "__main__":
    main()
