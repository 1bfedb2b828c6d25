"""Whether the loop has become much slower: two ratios of a short run, held against those in bench/results/guard.json.

`python -m bench.guard` measures them and makes them the new baseline; the suite measures them and fails when one is
below `TOLERATED` of it. Both are to something that does the same work without us, on the same machine in the same
minute, so that a slow machine slows both:

  loop    records a second of the identity loop, exactly once, to those of the limit (consume, then `produce_batch`):
          the median of turns of two seconds
  steps   JSON filter and project on batches in memory, to decoding and encoding the same records and nothing else
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from app.core.pipelines.pipeline import Filter, Project, StepOperator
from app.edges.embedded.kafka import Jvm, KafkaCluster
from bench.machine import keep, machine
from bench.peers.paired import tasks_of
from bench.peers.plan import Side
from bench.peers.report import say
from bench.peers.systems import PROGRAMS
from bench.peers.turns import Running
from bench.peers.work import Job, Topics, Work, judge
from workers.transforms.steps import StepsTransform

TOLERATED = 0.65
"""A halving is found, and the noise of a busy machine (about a fifth, in medians of turns) is not taken for one."""
_RECORDS = 12_000_000
_ROUNDS = 5
_BATCHES = 5
_REPEATS = 8


class LimitProcess:
    """The limit; paused by a signal, since it is no member of any group."""

    def __init__(self, bootstrap_servers: str, source: str, sink: str) -> None:
        self._command = [sys.executable, str(PROGRAMS / "limit.py"), bootstrap_servers, source, sink, "none"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._process is None else [self._process.pid]

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, "the limit has ended"

    def pause(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def drain(self) -> None:
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def loop_to_limit(bootstrap_servers: str, broker_pid: int) -> tuple[float, ...]:
    """The ratio of each round. Raises AssertionError when what came out of the loop is not every record once."""
    topics = Topics(bootstrap_servers)
    names = [f"guard-{what}-{time.monotonic_ns()}" for what in ("source", "loop", "limit")]
    source, ours, theirs = map(topics.create, names)
    topics.fill(source, Work(), _RECORDS)
    loop = Running(topics, tasks_of(Side("loop"), topics, source, ours), ours, broker_pid)
    limit = Running(topics, LimitProcess(bootstrap_servers, source, theirs), theirs, broker_pid)
    ratios: list[float] = []
    try:
        for one in (loop, limit):
            one.begin()
        for number in range(_ROUNDS):
            found = {one: one.turn(_RECORDS) for one in ((loop, limit) if number % 2 else (limit, loop))}
            mine, others = found[loop], found[limit]
            if mine is None or others is None:
                break
            ratios.append(mine.records_per_second / others.records_per_second)
        loop.subject.drain()
        judged = judge(topics, ours, Work(), records=_RECORDS)
        assert (judged.lost, judged.duplicated) == (0, 0), judged
    finally:
        for one in (loop, limit):
            one.subject.kill()
    for name in names:
        topics.delete(name)
    return tuple(ratios)


def steps_to_codec() -> tuple[float, ...]:
    """The ratio of each round, of processor time."""
    work = Work(job=Job.FILTER)
    messages = [
        Message(topic="t", partition=0, offset=at, key=None, value=value, timestamp=(TIMESTAMP_CREATE_TIME, 1))
        for at, value in enumerate(work.values(0, 0))
    ]
    steps = StepsTransform((Filter(field="arr_delay", operator=StepOperator.GE, value=15), Project(fields=("id",))))
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode

    def codec() -> None:
        for message in messages:
            encode(decode(message.value() or b""))

    def a_round() -> float:
        # The least of several short ones: what else the machine does only adds.
        pairs = [(_time_of(codec), _time_of(lambda: steps.process(messages))) for _ in range(_REPEATS)]
        return min(codec for codec, _ in pairs) / min(steps for _, steps in pairs)

    return tuple(a_round() for _ in range(_ROUNDS))


def _time_of(action: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(_BATCHES):
        action()
    return time.process_time() - began


def ratios() -> dict[str, tuple[float, ...]]:
    """Every round of both, on a broker of their own that is warm like a real one."""
    with KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka:
        return {"steps": steps_to_codec(), "loop": loop_to_limit(kafka.bootstrap_servers, kafka.broker(1).pid)}


def too_slow(found: Mapping[str, Sequence[float]], baseline: Mapping[str, Any]) -> dict[str, str]:
    """The ratios below the tolerance, by name, in words."""
    middle = {name: (statistics.median(rounds), baseline[name]["median"]) for name, rounds in found.items()}
    return {
        name: f"{now:.3f} now, {then:.3f} in the baseline: {now / then:.2f} of it, {TOLERATED:g} is tolerated"
        for name, (now, then) in middle.items()
        if now < TOLERATED * then
    }


def main() -> None:
    on = machine()
    found = ratios()
    say(str(found))
    keep("guard", on, {name: {"median": statistics.median(rounds), "rounds": rounds} for name, rounds in found.items()})


if __name__ == "__main__":
    main()
