"""What recording its offsets costs the loop: paired rounds with the recorder on and off, on one broker.

python -m bench.offset_recorder [--records N] [--seconds S]

Rounds go on for the seconds, each of both kinds, the order changing from round to round. Prints one JSON object and
writes it to bench/results/offset_recorder.json: the geometric means of on/off over the rounds with 95 % intervals, of
records a second, and of the processor time that the loop's own thread takes for a record, which other work on the
machine disturbs less. What neither can tell from noise is measured inside: in three more rounds, how much of its
thread's processor time the loop spends in calls of the recorder, the clock's own time included.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from app.edges.embedded.kafka import Jvm, KafkaCluster
from bench.identity_loop import VALUE, SilentControl, create_topics, definition, fill, measure
from bench.machine import keep, machine
from workers.loop import task
from workers.loop.control import TaskSpecification
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.transforms.identity import IdentityTransform

_RECORDING = (
    *("assigned", "given_up", "positioned", "begun_for_others", "begins"),
    *("stands_at", "add", "ended", "initialised"),
)
"""The calls of the loop; another thread reports the recorded events."""
_TIMED_ROUNDS = 3


class Kind(StrEnum):
    ON = "on"
    OFF = "off"
    TIMED = "timed"


def _timed(spent_s: Any, *arguments: Any, **settings: Any) -> OffsetRecorder:
    """A recorder that adds up what its calls take of their thread's processor time."""
    recorder = OffsetRecorder(*arguments, **settings)

    def timed(call: Callable[..., None]) -> Callable[..., None]:
        def body(*given: Any, **named: Any) -> None:
            began_at = time.thread_time()
            call(*given, **named)
            spent_s.value += time.thread_time() - began_at

        return body

    for name in _RECORDING:
        setattr(recorder, name, timed(getattr(recorder, name)))
    return recorder


def _run(encoded: bytes, kind: Kind, spent_s: Any) -> None:
    recorders = {
        Kind.ON: OffsetRecorder,
        Kind.OFF: partial(OffsetRecorder, is_on=False),
        Kind.TIMED: partial(_timed, spent_s),
    }
    task.OffsetRecorder = recorders[kind]  # pyright: ignore[reportAttributeAccessIssue]
    task.run_task(msgspec.json.decode(encoded, type=TaskSpecification), SilentControl(), transform=IdentityTransform())


@contextmanager
def _process(specification: TaskSpecification, kind: Kind, spent_s: Any) -> Generator[int]:
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(msgspec.json.encode(specification), kind, spent_s)
    )
    process.start()
    assert process.pid is not None
    try:
        yield process.pid
    finally:
        process.kill()
        process.join()


def _thread_cpu_s(pid: int) -> float:
    """The processor time of the process's first thread, which is the loop's."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def _round(bootstrap_servers: str, number: int, records: int, kind: Kind) -> dict[str, float]:
    sink = f"bench-sink-{number}-{kind}"
    create_topics(bootstrap_servers, sink)
    chosen = definition(source="bench-source", sink=sink)
    specification = TaskSpecification(
        pipeline="bench",
        run_id="bench",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        definition=chosen,
        client_config={"bootstrap.servers": bootstrap_servers},
        transactional_id=f"fl.t.{chosen.group_id}.0.0",
    )
    spent_s = multiprocessing.get_context("spawn").Value("d", lock=False)
    with _process(specification, kind, spent_s) as pid:
        figures = measure(bootstrap_servers, chosen, records, cpu_s=lambda: _thread_cpu_s(pid))
    if kind is Kind.TIMED:
        figures["in_the_recorder"] = spent_s.value / (figures["cpu_s_per_million"] * records / 1e6)
    return figures


def _ratio(rounds: list[dict[str, dict[str, float]]], figure: str) -> dict[str, float]:
    logs = [math.log(one["on"][figure] / one["off"][figure]) for one in rounds]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    half = _T_95[min(len(logs) - 1, len(_T_95)) - 1] * error
    low, middle, high = (round(math.exp(mean + side), 4) for side in (-half, 0.0, half))
    return {"on_to_off": middle, "low": low, "high": high}


_T_95 = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
)
"""Student's t by degrees of freedom from 1."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="of each half of a round")
    parser.add_argument("--seconds", type=float, default=150.0, help="begin no round after so many")
    arguments, _ = parser.parse_known_args()
    on, rounds = machine(), list[dict[str, dict[str, float]]]()
    with KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka:
        create_topics(kafka.bootstrap_servers, "bench-source")
        fill(kafka.bootstrap_servers, "bench-source", arguments.records)

        def run(number: int, kind: Kind) -> dict[str, float]:
            return _round(kafka.bootstrap_servers, number, arguments.records, kind)

        run(0, Kind.ON)
        began_at = time.monotonic()
        while len(rounds) < 2 or time.monotonic() - began_at < arguments.seconds:
            number = len(rounds) + 1
            kinds = (Kind.ON, Kind.OFF) if number % 2 else (Kind.OFF, Kind.ON)
            rounds.append(
                {str(kind): _round(kafka.bootstrap_servers, number, arguments.records, kind) for kind in kinds}
            )
        timed = [
            _round(kafka.bootstrap_servers, number, arguments.records, Kind.TIMED)["in_the_recorder"]
            for number in range(_TIMED_ROUNDS)
        ]
    figures: dict[str, object] = {
        "records": arguments.records,
        "record_bytes": len(VALUE),
        "records_per_second": _ratio(rounds, "records_per_second"),
        "thread_cpu_per_record": _ratio(rounds, "cpu_s_per_million"),
        "in_the_recorder": {"percent": round(100 * statistics.median(timed), 3), "rounds": timed},
        "rounds": rounds,
    }
    keep("offset_recorder", on, figures)


if __name__ == "__main__":
    main()
