"""`python -m bench.peers`: the loop against its peers, in turns on one broker; `make bench` is this and its page.

One broker, four partitions, replication 1, `acks=all`. In a *meeting* a system runs at a time, in turn, the order
changing from round to round. A run is measured when it is warm (`--warm` seconds after its first committed output), by
how the last stable offset of the sink grows; then the system is stopped and what it has committed is read and judged:
every id once, or at least once, as it promises. In a *pair* two ways of the loop change every few seconds. Results go
to bench/results/latest.json after every round (`--dry`: nowhere), with every round, and as `ratios` the medians of the
goals' rows; `python -m bench.peers.page` makes docs/measured/benchmark.md of them. `--quick` writes quick.json.

All of it takes about three hours. A meeting or pair by itself (`--only`, by a part of its name) takes its place in the
result and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.spark import SparkCluster
from bench.peers.measuring import Filled, Measured, measure
from bench.peers.paired import Scene, as_result, hold_pair
from bench.peers.plan import MEETINGS, PAIRS, QUICK, Meeting, Pair
from bench.peers.report import QUIX_PYTHON, Report, say
from bench.peers.systems import SYSTEMS, Place
from bench.peers.work import Topics


class Timing(argparse.Namespace):
    """seconds: of a measurement; warm: from the first output to it; rounds: None: as many as the meeting says."""

    seconds: float
    warm: float
    rounds: int | None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the goals' first three rows and JSON, in short rounds")
    parser.add_argument("--only", action="append", help="meetings and pairs with this in their name; may be repeated")
    parser.add_argument("--rounds", type=int, help="of every meeting")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a measurement")
    parser.add_argument("--warm", type=float, default=6.0, help="seconds from the first output to the measurement")
    parser.add_argument("--dry", action="store_true", help="write no result")
    chosen = parser.parse_args(namespace=Timing())
    meetings, pairs = _chosen(chosen.only)
    if chosen.quick:
        meetings, pairs, chosen.seconds = [*QUICK], [], 10.0
    if not meetings and not pairs:
        names = "\n".join(one.name for one in (*MEETINGS, *PAIRS))
        parser.error(f"no such meeting or pair; there are:\n{names}")
    report = Report(quick=chosen.quick, is_kept=not chosen.dry)
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
        SparkCluster.start(cores_per_worker=2) as spark,
    ):
        topics = Topics(kafka.bootstrap_servers)
        broker_pid = kafka.broker(1).pid
        for number, meeting in enumerate(meetings):
            place = Place(
                kafka.bootstrap_servers, broker_pid, Path(folder) / str(number), spark, QUIX_PYTHON.absolute()
            )
            hold(meeting, place, topics, chosen, report)
        for pair in pairs:
            compare(pair, Scene(topics, broker_pid, say), report)
    return 0


def _chosen(only: list[str] | None) -> tuple[list[Meeting], list[Pair]]:
    def is_asked_for(name: str) -> bool:
        return only is None or any(part in name for part in only)

    return [one for one in MEETINGS if is_asked_for(one.name)], [one for one in PAIRS if is_asked_for(one.name)]


def hold(meeting: Meeting, place: Place, topics: Topics, timing: Timing, report: Report) -> None:
    """All rounds of it, kept one by one."""
    records = int(meeting.records_each * (timing.seconds + timing.warm)) // 4_000 * 4_000
    source = Filled(topics.create(f"source-{place.folder.name}"), records)
    topics.fill(source.topic, meeting.work, records)
    say(f"{meeting.name}: {records:,} records written")
    found: dict[str, list[Measured]] = {name: [] for name in meeting.systems}
    rounds = timing.rounds or meeting.rounds
    for number in range(rounds):
        for name in order_of(meeting.systems, number):
            at = f"{place.folder.name}-{number}-{meeting.systems.index(name)}"
            folder = place.folder / at
            folder.mkdir(parents=True)
            measured = measure(
                place._replace(folder=folder),
                SYSTEMS[name],
                meeting.work,
                source,
                topics,
                sink=f"sink-{at}",
                warm_s=timing.warm,
                seconds=timing.seconds,
            )
            found[name].append(measured)
            say(f"{meeting.name}, round {number + 1} of {rounds}: {name}: {measured.records_per_second:,.0f} records/s")
        for goal in meeting.goals:
            ours, theirs = _rates(found[goal.ours]), _rates(found[goal.theirs])
            report.goal(goal.row, ours, theirs, at_least=goal.at_least, low=goal.low)
        report.held(
            "meetings",
            meeting.name,
            {"seconds": timing.seconds, "warm_s": timing.warm, "records": records, "systems": found},
        )
        report.keep()
    topics.delete(source.topic)


def order_of(systems: Sequence[str], number: int) -> tuple[str, ...]:
    """In which they take their turns in round `number`: there and back, then another one begins.

    None is always the first, nor always behind the same one; of two each begins half of the rounds.
    """
    first = number // 2 % len(systems)
    return (*systems[first:], *systems[:first])[:: -1 if number % 2 else 1]


def compare(pair: Pair, scene: Scene, report: Report) -> None:
    """All turns of a pair."""
    held = hold_pair(scene, pair)
    ours, theirs = ([turn.records_per_second for turn in held[side.name].turns] for side in (pair.ours, pair.theirs))
    report.goal(pair.row, ours, theirs, at_least=pair.at_least, low=pair.low, narrow=pair.narrow)
    report.held("pairs", pair.name, as_result(pair, held))
    report.keep()


def _rates(found: list[Measured]) -> list[float]:
    return [one.records_per_second for one in found]


if __name__ == "__main__":
    sys.exit(main())
