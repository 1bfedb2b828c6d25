"""Where the time of the identity loop goes, at full speed, exactly once: `python -m bench.profile_loop [--dry]`.

One task in a process of its own, one broker, four partitions, records of 100 bytes, commits every 100 ms. Twice for
`--seconds` on the same filled topic:

  py-spy   what the loop's thread is in, waiting included, as parts of the wall clock
  perf     what all its threads do while they run, by thread and by library; left out where the kernel forbids it

Beside each: records a second, and the processor time of every thread and of the broker. Both slow what they look at;
the parts are to be believed, not the rate. Writes bench/results/profile.json.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from app.core.pipelines.pipeline import PipelineDefinition, SparkSettings
from app.edges.embedded.kafka import Jvm, KafkaCluster
from bench.machine import keep, machine
from bench.peers.bare import BareTasks
from bench.peers.load import processor_s
from bench.peers.report import say
from bench.peers.work import Topics, Work

_PARTS = (
    ("Membership.consume", "read: wait for records, make Message objects"),
    ("Membership.positions", "ask the positions"),
    ("write_messages", "hand the records to the producer"),
    ("QueueingProducer.flush", "commit: wait for the deliveries"),
    ("send_offsets", "commit: send the offsets"),
    ("TransactionalProducer.commit", "commit: end the transaction"),
    ("TransactionalProducer.begin", "begin the transaction"),
    ("", "all else of the loop"),
)
"""A frame's name and what it is a part of; the first that fits counts."""
_LOOP = "TaskLoop._turn"
_LOOPS_THREAD = "python"
_WARM_S = 3.0
_BEGINS_WITHIN_S = 60.0


def parts_of(raw: str) -> dict[str, float]:
    """Shares of the loop's samples by part, of py-spy's raw stacks (`frame;frame;frame count`)."""
    samples: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        if _LOOP in stack:
            samples[next(part for name, part in _PARTS if name in stack)] += int(count)
    total = samples.total()
    return {part: round(samples[part] / total, 4) for _, part in _PARTS}


def shares_of(report: str) -> dict[tuple[str, ...], float]:
    """Shares by the names of a line, of perf's `--stdio` report sorted by one key or several."""
    shares: dict[tuple[str, ...], float] = {}
    for line in report.splitlines():
        share, _, names = line.strip().partition("%")
        if names and not line.startswith("#"):
            shares[tuple(names.split())] = float(share) / 100
    return shares


def in_the_loop(shares: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    """Of shares by thread and library, the libraries' shares of the loop's thread.

    perf's own filter by thread is not used: sorted by library alone, it shows all of one or nothing.
    """
    own = {library: share for (thread, library), share in shares.items() if thread == _LOOPS_THREAD}
    total = sum(own.values())
    return _told({library: share / total for library, share in own.items()})


def _told(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items() if share >= 0.005}


def under_py_spy(pid: int, seconds: float, folder: Path) -> dict[str, Any]:
    into = folder / "stacks"
    command = [Path(sys.executable).parent / "py-spy", "record", "--idle", "--format", "raw", "--rate", "200"]
    subprocess.run(
        [*command, "--duration", f"{seconds:.0f}", "--output", into, "--pid", str(pid)], check=True, capture_output=True
    )
    return {"parts": parts_of(into.read_text("utf-8"))}


def under_perf(pid: int, seconds: float, folder: Path) -> dict[str, Any]:
    into = str(folder / "perf.data")
    subprocess.run(
        ["perf", "record", "-F", "499", "-o", into, "-p", str(pid), "--", "sleep", f"{seconds:g}"],
        check=True,
        capture_output=True,
    )

    def by(key: str) -> dict[tuple[str, ...], float]:
        command = ["perf", "report", "-i", into, "--stdio", "--no-children", "-s", key]
        return shares_of(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return {
        "by_thread": _told({name: share for (name, *_), share in by("comm").items()}),
        "by_library_in_the_loop": in_the_loop(by("comm,dso")),
    }


def threads_of(pid: int) -> dict[int, tuple[str, float]]:
    """Name and processor seconds of each."""
    found: dict[int, tuple[str, float]] = {}
    for entry in psutil.Process(pid).threads():
        name = Path(f"/proc/{pid}/task/{entry.id}/comm").read_text("utf-8").strip()
        found[entry.id] = (name, entry.user_time + entry.system_time)
    return found


def measured(topics: Topics, source: str, broker_pid: int, look: Any, seconds: float, folder: Path) -> dict[str, Any]:
    """A run of its own, sampled when it is warm."""
    sink = topics.create(f"profile-{look.__name__.replace('_', '-')}")
    tasks = BareTasks(
        topics.bootstrap_servers,
        PipelineDefinition(
            cluster="bench",
            source_topics=(source,),
            group_id=sink,
            sink_topic=sink,
            spark=SparkSettings(master="local"),
        ),
    )
    try:
        tasks.start()
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        while not sum(topics.ends(sink).values()):
            assert time.monotonic() < deadline, f"nothing came out within {_BEGINS_WITHIN_S:g} s"
            time.sleep(0.1)
        time.sleep(_WARM_S)
        (pid,) = tasks.pids
        threads, broker_s = threads_of(pid), processor_s([broker_pid])[broker_pid]
        count, began_at = sum(topics.ends(sink).values()), time.monotonic()
        found = look(pid, seconds, folder)
        took_s = time.monotonic() - began_at
        cores: defaultdict[str, float] = defaultdict(float)
        for number, (name, spent_s) in threads_of(pid).items():
            cores[name] += spent_s - threads.get(number, (name, 0.0))[1]
        found |= {
            "records_per_second": round((sum(topics.ends(sink).values()) - count) / took_s),
            "cores_by_thread": {name: round(spent_s / took_s, 3) for name, spent_s in cores.items() if spent_s},
            "broker_cores": round((processor_s([broker_pid])[broker_pid] - broker_s) / took_s, 3),
        }
        tasks.drain()
    finally:
        tasks.kill()
    topics.delete(sink)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--records", type=int, default=24_000_000)
    parser.add_argument("--dry", action="store_true", help="write no result")
    chosen = parser.parse_args()
    on = machine()
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
    ):
        topics = Topics(kafka.bootstrap_servers)
        source = topics.create("profile-source")
        topics.fill(source, Work(), chosen.records)
        looks = [under_py_spy, *([under_perf] if shutil.which("perf") else [])]
        figures: dict[str, object] = {}
        for look in looks:
            say(look.__name__)
            figures[look.__name__] = measured(topics, source, kafka.broker(1).pid, look, chosen.seconds, Path(folder))
    keep("profile", on, figures)


if __name__ == "__main__":
    main()
