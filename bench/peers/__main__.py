"""`python -m bench.peers`: the loop against its peers, in turns on one broker.

One broker, four partitions, replication 1, `acks=all`; a system at a time, in turn, the order changing from round to
round. A run is measured when it is warm (`--warm` seconds after its first committed output), by how the last stable
offset of the sink grows; then the system is stopped and what it has committed is read and judged: every id once, or
at least once, as it promises. Results go to bench/results/latest.json after every run (`--dry`: nowhere) with every
round, and as `ratios` the medians of the goals' rows; `python -m bench.peers.page` makes docs/benchmark.md of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec

from app.embedded.kafka import Jvm, KafkaCluster
from app.embedded.maven import KAFKA_VERSION
from app.embedded.spark import SparkCluster
from bench.machine import RESULTS, machine
from bench.peers.measuring import Filled, Measured, measure
from bench.peers.plan import JSON, MAIN, OTHERS, PAIRED, QUICK, Meeting
from bench.peers.ratios import ratio
from bench.peers.systems import SYSTEMS, Place
from bench.peers.work import Topics

QUIX_PYTHON = Path("build/quix/bin/python")
_NARROW = 0.04
_PAIRED_ROUNDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the goals' first rows, 3 rounds of 10 s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a measurement")
    parser.add_argument("--warm", type=float, default=3.0, help="seconds from the first output to the measurement")
    parser.add_argument("--meeting", action="append", help="this one; may be said several times")
    parser.add_argument("--system", action="append", help="only these systems of it")
    parser.add_argument("--dry", action="store_true", help="write no result")
    chosen = parser.parse_args()
    meetings = [MAIN, JSON, PAIRED, *OTHERS]
    if chosen.quick:
        meetings = [MAIN._replace(systems=MAIN.systems[:QUICK])]
        chosen.rounds, chosen.seconds = 3, 10.0
    if chosen.meeting:
        meetings = [meeting for meeting in meetings if meeting.name in chosen.meeting]
        assert meetings, f"no such meeting; there are: {', '.join(one.name for one in [MAIN, JSON, PAIRED, *OTHERS])}"
    if chosen.system:
        meetings = [
            one._replace(systems=tuple(name for name in one.systems if name in chosen.system)) for one in meetings
        ]
    report: dict[str, Any] = {
        "machine": machine(),
        "quick": chosen.quick,
        "versions": versions(),
        "seconds": chosen.seconds,
        "warm_s": chosen.warm,
        "ratios": {},
        "meetings": {},
    }
    report["machine"]["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
        SparkCluster.start(cores_per_worker=2) as spark,
    ):
        topics = Topics(kafka.bootstrap_servers)
        for number, meeting in enumerate(meetings):
            place = Place(kafka.bootstrap_servers, Path(folder) / str(number), spark, QUIX_PYTHON.absolute())
            hold(meeting, place, topics, chosen, report)
    return 0


def hold(meeting: Meeting, place: Place, topics: Topics, chosen: Any, report: dict[str, Any]) -> None:
    """All rounds of it, kept one by one."""
    source = Filled(f"source-{place.folder.name}", int(meeting.records_each * (chosen.seconds + chosen.warm)))
    source = source._replace(records=source.records // 4_000 * 4_000)
    topics.create(source.topic)
    began_at = time.monotonic()
    topics.fill(source.topic, meeting.work, source.records)
    say(f"{meeting.name}: {source.records:,} records written in {time.monotonic() - began_at:.0f} s")
    found: dict[str, list[Measured]] = {name: [] for name in meeting.systems}
    report["meetings"][meeting.name] = {"records": source.records, "systems": found}
    number = 0
    while number < chosen.rounds or (meeting.is_paired and not is_narrow(meeting, found) and number < _PAIRED_ROUNDS):
        # Neither is always the first, nor always behind the same one.
        turn = number % len(meeting.systems)
        for name in (*meeting.systems[turn:], *meeting.systems[:turn])[:: -1 if number % 2 else 1]:
            at = f"{place.folder.name}-{number}-{meeting.systems.index(name)}"
            folder = place.folder / at
            folder.mkdir(parents=True)
            measured = measure(
                Place(place.bootstrap_servers, folder, place.spark, place.quix_python),
                SYSTEMS[name],
                meeting.work,
                source,
                topics,
                sink=f"sink-{at}",
                warm_s=chosen.warm,
                seconds=chosen.seconds,
            )
            found[name].append(measured)
            say(f"{meeting.name}, round {number + 1}: {name}: {measured.records_per_second:,.0f} records/s")
        number += 1
        for goal in meeting.goals:
            if found.get(goal.ours) and found.get(goal.theirs):
                is_to = ratio(rates(found[goal.ours]), rates(found[goal.theirs]))
                report["ratios"][goal.row] = is_to.median
                report.setdefault("goals", {})[goal.row] = {"at_least": goal.at_least, "ratio": is_to}
                say(f"  {goal.row}: {is_to.median} ({is_to.low} to {is_to.high}), wanted {goal.at_least}")
        if not chosen.dry:
            text = msgspec.json.format(msgspec.json.encode(report), indent=1)
            (RESULTS / "latest.json").write_bytes(text + b"\n")
    topics.delete(source.topic)


def is_narrow(meeting: Meeting, found: dict[str, list[Measured]]) -> bool:
    (goal,) = meeting.goals
    is_to = ratio(rates(found[goal.ours]), rates(found[goal.theirs]))
    return is_to.high - is_to.low <= _NARROW


def rates(found: list[Measured]) -> list[float]:
    return [one.records_per_second for one in found]


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


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
