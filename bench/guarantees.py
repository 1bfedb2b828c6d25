"""What a producer for each input partition costs, against one for each task (KIP-447), as the partitions grow.

python -m bench.guarantees [--partitions 10,50,100,200] [--rounds N] [--records N] [--seconds S] [--dry]

One broker, one run, the identity loop on records of 100 bytes, commits every 100 ms, two tasks in processes of their
own that start paused and go on when each has its half of the partitions. `exactly_once` (its offsets sent with the
generation) and `exactly_once_v2` in turn, the order changing from round to round, each measured twice:

  full speed     a filled topic is taken to its end: records a second from the first commit seen to the last record
  steady         so many records a second arrive, the same for both: what it takes to serve them

At the end of the steady time: the latency of a checkpoint's commit as the tasks tell it (of the last 512 of each; the
slower task counts), transactional ids as the broker lists them, and of both workers together Kafka clients (main
threads of librdkafka), threads, connections and resident memory; requests a second as the broker counts them (JMX),
and processor time of the broker and of the workers. Before every measurement the sink is a new topic; after it, what
is committed in it is counted, and must be what was fed. Prints one JSON object and writes it to
bench/results/guarantees.json.
"""

from __future__ import annotations

import argparse
import statistics
import time

import psutil
from confluent_kafka import KafkaException

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.ports import free_ports
from bench.guarantee_scene import VALUE, Scene, feed, fill, wait_for_commits
from bench.guarantee_tasks import TASKS, clients, cpu_s, definition, tasks
from bench.machine import keep, machine
from tests.support.results import git, is_changed_since_commit

GUARANTEES = (ProcessingGuarantee.EXACTLY_ONCE, ProcessingGuarantee.EXACTLY_ONCE_V2)


def at_full_speed(
    scene: Scene, guarantee: ProcessingGuarantee, source: str, partitions: int, records: int
) -> dict[str, float]:
    """Takes the filled topic `source` to its end."""
    sink = scene.topic(partitions)
    chosen = definition(guarantee, source, sink)
    with tasks(scene, chosen, partitions) as (_, shared):
        for one in shared:
            one.goes.set()
        began_at, before = wait_for_commits(scene, chosen, partitions, 1)
        now, total = wait_for_commits(scene, chosen, partitions, records)
    found = scene.committed_records(sink, partitions)
    assert found == records, f"{found} records in the sink, {records} in the source"
    scene.delete(sink)
    return {"records_per_second": round((total - before) / (now - began_at), 2)}


def steady(
    scene: Scene, guarantee: ProcessingGuarantee, partitions: int, per_s: int, seconds: float
) -> dict[str, float]:
    source, sink = scene.topic(partitions), scene.topic(partitions)
    chosen = definition(guarantee, source, sink)
    with tasks(scene, chosen, partitions) as (pids, shared):
        for one in shared:
            one.goes.set()
        fed = feed(scene, source, partitions, per_s, min(5.0, seconds))
        requests, began_at = scene.requests(), time.monotonic()
        broker_s, worker_s = cpu_s(scene.broker_pid), sum(map(cpu_s, pids))
        fed += feed(scene, source, partitions, per_s, seconds)
        took_s = time.monotonic() - began_at
        broker_s, worker_s = cpu_s(scene.broker_pid) - broker_s, sum(map(cpu_s, pids)) - worker_s
        workers = [psutil.Process(pid) for pid in pids]
        figures = {
            "broker_requests_per_second": (scene.requests() - requests) / took_s,
            "broker_cores": broker_s / took_s,
            "worker_cores": worker_s / took_s,
            "commit_ms_p50": max(one.p50_ms.value for one in shared),
            "commit_ms_p99": max(one.p99_ms.value for one in shared),
            "transactional_ids": scene.ids(f"fl.p.{chosen.group_id}.") + scene.ids(f"fl.t.{chosen.group_id}."),
            "clients": sum(clients(pid) for pid in pids),
            "threads": sum(worker.num_threads() for worker in workers),
            "connections": sum(
                connection.status == psutil.CONN_ESTABLISHED
                for worker in workers
                for connection in worker.net_connections("tcp")
            ),
            "memory_mb": sum(worker.memory_info().rss for worker in workers) / 2**20,
        }
        wait_for_commits(scene, chosen, partitions, fed)
    found = scene.committed_records(sink, partitions)
    assert found == fed, f"{found} records in the sink, {fed} were fed"
    scene.delete(source, sink)
    return {key: round(value, 2) for key, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", default="10,50,100,200")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=4_000_000, help="of a filled topic")
    parser.add_argument("--per-second", type=int, default=10_000, help="of the steady load")
    parser.add_argument("--seconds", type=float, default=15.0, help="of the steady load")
    parser.add_argument("--dry", action="store_true", help="write no result")
    arguments = parser.parse_args()
    on, rounds = machine(), list[dict[str, object]]()
    commit = {"commit": git("rev-parse", "HEAD"), "changed_since_commit": is_changed_since_commit()}
    (jmx_port,) = free_ports(1)
    with KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False, jmx_port=jmx_port)) as kafka:
        scene = Scene(kafka, jmx_port)
        for partitions in map(int, arguments.partitions.split(",")):
            source = scene.topic(partitions)
            fill(scene, source, partitions, arguments.records)
            for number in range(arguments.rounds):
                for guarantee in GUARANTEES[:: -1 if number % 2 else 1]:
                    found = dict[str, object]()
                    try:
                        found |= steady(scene, guarantee, partitions, arguments.per_second, arguments.seconds)
                        found |= at_full_speed(scene, guarantee, source, partitions, arguments.records)
                    except (AssertionError, KafkaException) as error:
                        # Reported with the others: a guarantee whose rounds fail must not vanish from the figures.
                        found = {"failure": str(error)}
                    rounds.append({"partitions": partitions, "round": number, "guarantee": guarantee, **found})
                    print(rounds[-1], flush=True)
            scene.delete(source)
    keep(
        "guarantees",
        on,
        {
            **commit,
            "tasks": TASKS,
            "record_bytes": len(VALUE),
            "records": arguments.records,
            "steady_per_second": arguments.per_second,
            "steady_seconds": arguments.seconds,
            "medians": medians(rounds),
            "rounds": rounds,
        },
    )


def medians(rounds: list[dict[str, object]]) -> list[dict[str, object]]:
    """The medians of each figure, by partitions and guarantee."""
    by: dict[tuple[object, object], list[dict[str, object]]] = {}
    for one in rounds:
        if "failure" in one:
            continue
        by.setdefault((one["partitions"], one["guarantee"]), []).append(one)
    return [
        {
            "partitions": partitions,
            "guarantee": guarantee,
            **{
                key: round(statistics.median(float(str(one[key])) for one in found), 2)
                for key in found[0]
                if key not in ("partitions", "guarantee", "round")
            },
        }
        for (partitions, guarantee), found in by.items()
    ]


if __name__ == "__main__":
    main()
