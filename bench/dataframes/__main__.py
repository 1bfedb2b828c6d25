"""`python -m bench.dataframes [--rounds N] [--records N] [--dry]`: rows of DataFrames from topic to topic.

One broker, four partitions, values of 100 bytes without keys, two cores for everything. In turn, the order changing
from round to round: Spark's own Kafka sink (at least once), Fenceline's with one writer and with two (exactly once),
all with the same settings of their clients.

- *Rate*: micro-batches of 250,000 rows until the topic is read. The rows of all batches after the first three, by the
  time from their begin to the end of the last. Afterwards a read_committed reader counts rows and distinct ids.
- *Trigger*: 1,000 records a second, one trigger a second. The median time of a trigger that had rows.

Every round goes to bench/results/dataframes.json; `python -m bench.peers.page` makes its section of the benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.maven import KAFKA_VERSION
from app.edges.embedded.spark_sink import ensure_sink_jar, spark_kafka_jars
from bench.identity_loop import PARTITIONS, create_topics
from bench.machine import keep, machine
from bench.peers.ratios import Ratio, ratio
from bench.peers.report import fold_goal_in, fold_in, say

BATCH = 250_000
WARM_BATCHES = 3
TRIGGER_ROWS = 1_000
SYSTEMS: dict[str, dict[str, Any]] = {
    "spark's own sink": {"system": "spark", "writers": 0},
    "one writer": {"system": "fenceline", "writers": 1},
    "two writers": {"system": "fenceline", "writers": 2},
}
PEER = "spark's own sink"
AT_LEAST = {"one writer": 0.8, "two writers": 1.0}
"""The goals of rates against the peer's."""
TRIGGER_AT_MOST = 1.3
"""The goal of one writer's triggers against the peer's."""
TRIGGER_ROW = "time of a trigger with 1,000 rows, one writer, vs Spark's own sink"
Rounds = Mapping[str, Sequence[Mapping[str, Any]]]
_ENDS_WITHIN_S = 600.0


class Batch(NamedTuple):
    """One micro-batch; begun in seconds since 1970."""

    rows: int
    begun: float
    parts_ms: Mapping[str, int]

    @property
    def ended(self) -> float:
        return self.begun + self.parts_ms["triggerExecution"] / 1000


class Place(NamedTuple):
    bootstrap_servers: str
    folder: Path


def fill(bootstrap_servers: str, topic: str, records: int) -> None:
    """Values of 100 bytes that begin with their number, evenly over the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "compression.type": "lz4"})
    for number in range(records):
        _produce(producer, topic, number)
    assert producer.flush(120) == 0


def _produce(producer: Producer, topic: str, number: int) -> None:
    while True:
        try:
            producer.produce(topic, f"{number:012d}".encode().ljust(100, b"x"), partition=number % PARTITIONS)
            return
        except BufferError:
            producer.poll(0.05)


def measured_rate(place: Place, system: str, sink: str, source: str, records: int) -> dict[str, Any]:
    """Rows a second of the batches after the warm ones, and what is in the sink."""
    with _query(place, system, source=source, sink=sink, each=BATCH, trigger="") as running:
        batches = running.until_its_end()
    counted = batches[WARM_BATCHES:]
    assert len(counted) > 1, f"{len(batches)} batches are too few; give more --records"
    found = count(place.bootstrap_servers, sink)
    assert found == {"rows": records, "distinct": records}, found
    rows = sum(batch.rows for batch in counted)
    return {"rows_per_second": round(rows / (counted[-1].ended - counted[0].begun)), "batches": len(counted)}


def measured_trigger(place: Place, system: str, sink: str, seconds: float) -> dict[str, Any]:
    """The median of the triggers' times, in milliseconds, and of their parts."""
    source = f"{sink}-source"
    create_topics(place.bootstrap_servers, source)
    stop = threading.Event()
    sender = threading.Thread(target=_send, args=(place.bootstrap_servers, source, stop))
    with _query(place, system, source=source, sink=sink, each=BATCH, trigger="1 second") as running:
        sender.start()
        try:
            running.wait_for_batches(5)
            time.sleep(seconds)
        finally:
            stop.set()
            sender.join()
        batches = [batch for batch in running.batches()[5:] if batch.rows]
    parts = {name for batch in batches for name in batch.parts_ms}
    return {
        "trigger_ms": statistics.median(batch.parts_ms["triggerExecution"] for batch in batches),
        "triggers": len(batches),
        "parts_ms": {
            name: statistics.median(batch.parts_ms.get(name, 0) for batch in batches) for name in sorted(parts)
        },
    }


def _send(bootstrap_servers: str, topic: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    begun, number = time.monotonic(), 0
    while not stop.is_set():
        while number < (time.monotonic() - begun) * TRIGGER_ROWS:
            _produce(producer, topic, number)
            number += 1
        producer.poll(0)
        time.sleep(0.01)
    producer.flush(30)


class Running:
    """A query's process and what it tells."""

    def __init__(self, process: subprocess.Popen[bytes], told: Path, log: Path) -> None:
        self._process = process
        self._told = told
        self._log = log

    def batches(self) -> list[Batch]:
        *whole, _rest = self._told.read_text().split("\n")
        told = [json.loads(line) for line in whole if line.startswith("{")]
        return [Batch(one["rows"], one["begun"], one["parts_ms"]) for one in told if one["rows"]]

    def until_its_end(self) -> list[Batch]:
        ended = self._process.wait(_ENDS_WITHIN_S)
        assert ended == 0, self._tail()
        return self.batches()

    def wait_for_batches(self, number: int) -> None:
        deadline = time.monotonic() + _ENDS_WITHIN_S
        while len(self.batches()) < number:
            assert self._process.poll() is None, self._tail()
            assert time.monotonic() < deadline, self._tail()
            time.sleep(0.2)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()


def _query(place: Place, system: str, *, source: str, sink: str, each: int, trigger: str) -> Running:
    create_topics(place.bootstrap_servers, sink)
    folder = place.folder / sink
    folder.mkdir()
    order = {
        **SYSTEMS[system],
        "bootstrap_servers": place.bootstrap_servers,
        "source": source,
        "sink": sink,
        "each": each,
        "trigger": trigger,
        "folder": str(folder),
        "jars": ",".join(map(str, [*spark_kafka_jars(), ensure_sink_jar()])),
    }
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(may_fetch=False).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    program = str(Path(__file__).parent / "program.py")
    told, log = folder / "told", folder / "log"
    with told.open("wb") as into, log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, program, json.dumps(order)], stdout=into, stderr=errors, env=environment
        )
    return Running(process, told, log)


def count(bootstrap_servers: str, topic: str) -> dict[str, int]:
    """Committed rows of the topic, and their distinct ids."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench-dataframes",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    rows, ended, ids = 0, 0, set[bytes]()
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is not None:
                ended += 1
            else:
                rows += 1
                ids.add((message.value() or b"")[:12])
    consumer.close()
    return {"rows": rows, "distinct": len(ids)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the triggers' measurement")
    parser.add_argument("--dry", action="store_true", help="write no result")
    chosen = parser.parse_args()
    on = machine()
    rounds: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
    ):
        place = Place(kafka.bootstrap_servers, Path(folder))
        create_topics(kafka.bootstrap_servers, "dataframes-source")
        fill(kafka.bootstrap_servers, "dataframes-source", chosen.records)
        say(f"{chosen.records:,} records written")
        for number in range(chosen.rounds):
            for system in list(SYSTEMS)[:: -1 if number % 2 else 1]:
                sink = f"{system.replace(' ', '-').replace(chr(39), '')}-{number}"
                found = measured_rate(place, system, sink, "dataframes-source", chosen.records)
                found |= measured_trigger(place, system, f"{sink}-triggers", chosen.seconds)
                rounds[system].append(found)
                say(f"{system}, round {number + 1}: {found}")
    result: dict[str, Any] = {
        "machine": on,
        "versions": versions(),
        "records": chosen.records,
        "batch": BATCH,
        "medians": medians(rounds),
        "rounds": rounds,
    }
    keep("dataframes", on, result)
    if not chosen.dry:
        for row, (found, at_least) in goals(rounds).items():
            fold_goal_in(row, found, at_least=at_least)
        fold_in(TRIGGER_ROW, trigger_ratio(rounds).median, {"at_most": TRIGGER_AT_MOST, "machine": on})


def versions() -> dict[str, str]:
    return {"Kafka": KAFKA_VERSION, "confluent-kafka": version("confluent-kafka"), "PySpark": version("pyspark")}


def goals(rounds: Rounds) -> dict[str, tuple[Ratio, float]]:
    """The ratio of rates for each row, and its goal."""
    return {
        f"rows of a DataFrame, {system}, vs Spark's own sink": (
            ratio(each(rounds, system, "rows_per_second"), each(rounds, PEER, "rows_per_second")),
            at_least,
        )
        for system, at_least in AT_LEAST.items()
    }


def trigger_ratio(rounds: Rounds) -> Ratio:
    return ratio(each(rounds, "one writer", "trigger_ms"), each(rounds, PEER, "trigger_ms"))


def medians(rounds: Rounds) -> dict[str, dict[str, float]]:
    return {
        system: {what: statistics.median(each(rounds, system, what)) for what in ("rows_per_second", "trigger_ms")}
        for system in rounds
    }


def each(rounds: Rounds, system: str, what: str) -> list[float]:
    return [one[what] for one in rounds[system]]


if __name__ == "__main__":
    main()
