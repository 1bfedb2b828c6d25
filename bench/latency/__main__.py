"""`python -m bench.latency`: from when a record is due to be sent to when a reader of committed records has it.

One broker, four partitions, records of 100 bytes; the identity pipeline, exactly_once_v2, in a Spark task and bare, and
Kafka Streams beside it. For each commit interval the three are started together and take turns: while one is fed, the
others have nothing to do. Sender and reader are processes of their own on the same machine, by the same clock; a record
counts from the time that it was due, whenever it was sent. Figures of every round, and medians over the rounds, go to
bench/results/latency.json (`--dry`: nowhere); `python -m bench.waiting_page` makes docs/measured/waiting.md of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec

from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.maven import KAFKA_VERSION
from app.edges.embedded.spark import SparkCluster
from bench.latency.measuring import QUANTILES, Latencies, measure
from bench.machine import keep, machine
from bench.peers.report import fold_in, say
from bench.peers.systems import SYSTEMS, Place
from bench.peers.work import Topics, Work
from tests.support.waiting import wait_for

NAMES = {
    "spark": "fenceline exactly_once_v2, spark",
    "bare": "fenceline exactly_once_v2, bare",
    "streams": "kafka streams exactly_once_v2",
}
RATES = (1_000, 50_000)
INTERVALS_MS = (10, 100)
GOAL = "spark_1000_10ms"
ROW = "end-to-end latency at 1,000 records a second, commits each 10 ms, 99th percentile, ms"
WANTED_MS = 30
Found = dict[str, list[Latencies]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a measurement")
    parser.add_argument("--warm", type=float, default=1.5, help="seconds of the same load before it")
    parser.add_argument("--interval", type=int, action="append", help="milliseconds; may be repeated")
    parser.add_argument("--rate", type=int, action="append", help="records a second; may be repeated")
    parser.add_argument("--system", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--dry", action="store_true", help="print only")
    chosen = parser.parse_args()
    on = machine()
    found: Found = {}
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
        SparkCluster.start(cores_per_worker=1) as spark,
    ):
        for interval_ms in chosen.interval or INTERVALS_MS:
            place = Place(kafka.bootstrap_servers, kafka.broker(1).pid, Path(folder) / str(interval_ms), spark, Path())
            take_turns(place, interval_ms, chosen, found)
    rounds = {name: [msgspec.to_builtins(one) for one in each] for name, each in found.items()}
    figures: dict[str, object] = {
        "versions": versions(),
        "rounds_each": chosen.rounds,
        "seconds": chosen.seconds,
        "warm_s": chosen.warm,
        "quantiles": QUANTILES,
        "medians": {name: medians(each) for name, each in rounds.items()},
        "rounds": rounds,
    }
    keep("latency", on, figures)
    if GOAL in rounds and not chosen.dry:
        fold_in(ROW, medians(rounds[GOAL])["p99_ms"], {"at_most": WANTED_MS, "machine": on, "rounds": rounds[GOAL]})


def take_turns(place: Place, interval_ms: int, chosen: Any, found: Found) -> None:
    """All systems with one commit interval; what is measured goes into `found`."""
    topics = Topics(place.bootstrap_servers)
    names = list(chosen.system or NAMES)
    with ExitStack() as running:
        for name in names:
            folder = place.folder / name
            folder.mkdir(parents=True)
            source, sink = (topics.create(f"{name}-{interval_ms}-{end}") for end in ("in", "out"))
            own = place._replace(folder=folder)
            running.enter_context(SYSTEMS[NAMES[name]].start(own, Work(commit_interval_ms=interval_ms), source, sink))
        for name in names:
            warm_up(place, topics, name, interval_ms)
            say(f"commits each {interval_ms} ms: {name} is there")
        for number in range(chosen.rounds):
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                for rate in chosen.rate or RATES:
                    measured = measure(
                        place.bootstrap_servers,
                        place.folder / name,
                        source=f"{name}-{interval_ms}-in",
                        sink=f"{name}-{interval_ms}-out",
                        rate=rate,
                        warm_s=chosen.warm,
                        seconds=chosen.seconds,
                    )
                    found.setdefault(key(name, rate, interval_ms), []).append(measured)
                    say(
                        f"commits each {interval_ms} ms, {rate:,} records/s, round {number + 1}: {name}: "
                        f"p50 {measured.p50_ms} ms, p99 {measured.p99_ms} ms, max {measured.max_ms} ms"
                    )


def warm_up(place: Place, topics: Topics, name: str, interval_ms: int) -> None:
    """Until records come through; they are measured and forgotten. Raises AssertionError when none come."""
    source, sink = f"{name}-{interval_ms}-in", f"{name}-{interval_ms}-out"
    topics.fill(source, Work(), 4_000)
    wait_for(lambda: sum(topics.ends(sink).values()) >= 4_000, 120, f"{name} to begin")
    folder = place.folder / name
    measure(place.bootstrap_servers, folder, source=source, sink=sink, rate=max(RATES), warm_s=0, seconds=2)


def key(name: str, rate: int, interval_ms: int) -> str:
    """How a result is named: the system, the records a second, the commit interval."""
    return f"{name}_{rate}_{interval_ms}ms"


def medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median of each figure by itself; of the quantiles at each."""
    whole = ("records", "lost", "doubled")
    found: dict[str, Any] = {}
    for name in sorted(rounds[0].keys() - {"quantiles_ms"}):
        values = [one[name] for one in rounds]
        found[name] = sum(values) if name in whole else round(statistics.median(values), 2)
    each = zip(*(one["quantiles_ms"] for one in rounds), strict=True)
    return {**found, "quantiles_ms": [round(statistics.median(values), 2) for values in each]}


def versions() -> dict[str, str]:
    return {
        "Kafka and Kafka Streams": KAFKA_VERSION,
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "PySpark": version("pyspark"),
        "Python": sys.version.split()[0],
    }


if __name__ == "__main__":
    main()
