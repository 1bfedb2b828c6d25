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
import ctypes
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from app.domain.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee, SparkSettings
from app.domain.transactions import transactional_id
from app.embedded.kafka import Jvm, KafkaCluster
from app.embedded.ports import free_ports
from app.kafka.attempt import Attempt
from app.kafka.transactions.client import TransactionClient
from app.wire.heartbeat import DesiredTaskState
from app.wire.specification import PartitionMapping
from bench.identity_loop import SilentControl
from bench.machine import keep, machine
from tests.support.kafka_tools import run_tool
from workers.transactional.control import TaskSnapshot, TaskSpecification
from workers.transactional.task import run_task
from workers.transforms.identity import IdentityTransform

TASKS = 2
VALUE = b"x" * 100
GUARANTEES = (ProcessingGuarantee.EXACTLY_ONCE, ProcessingGuarantee.EXACTLY_ONCE_V2)
_DEADLINE_S = 240.0


class Shared(NamedTuple):
    """What a task's process tells and is told."""

    goes: Any
    partitions: Any
    p50_ms: Any
    p99_ms: Any

    @classmethod
    def new(cls) -> Shared:
        context = multiprocessing.get_context("spawn")
        return cls(context.Event(), *(context.Value(kind) for kind in (ctypes.c_int, ctypes.c_double, ctypes.c_double)))


class TellingControl(SilentControl):
    """Paused until it may go; says how many partitions it has and what its commits take."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def desired(self) -> DesiredTaskState:
        return DesiredTaskState.RUN if self._shared.goes.is_set() else DesiredTaskState.PAUSE

    def publish(self, snapshot: TaskSnapshot) -> None:
        self._shared.partitions.value = len(snapshot.partitions)
        self._shared.p50_ms.value = snapshot.commit_latency_p50_ms or 0.0
        self._shared.p99_ms.value = snapshot.commit_latency_p99_ms or 0.0


def _task(encoded: bytes, shared: Shared) -> None:
    specification = msgspec.json.decode(encoded, type=TaskSpecification)
    run_task(specification, TellingControl(shared), transform=IdentityTransform())


class Scene:
    """One broker, and what is asked of it."""

    def __init__(self, kafka: KafkaCluster, jmx_port: int) -> None:
        self.bootstrap_servers = kafka.bootstrap_servers
        self.broker_pid = kafka.broker(1).pid
        self._jmx_url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{jmx_port}/jmxrmi"
        # Its answers are futures of nothing in particular: there is no type to keep.
        self._admin: Any = AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def topic(self, partitions: int) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    def delete(self, *names: str) -> None:
        for deleted in self._admin.delete_topics(list(names)).values():
            deleted.result(60)

    def requests(self) -> float:
        """How many the broker has answered since it started, of every kind."""
        told = run_tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", self._jmx_url, "--one-time", "--report-format", "properties"),
            *("--object-name", "kafka.network:type=RequestMetrics,name=RequestsPerSec,*", "--attributes", "Count"),
        )
        counts = [line.rpartition("=") for line in told.splitlines() if line.startswith("kafka.network:")]
        assert counts, told
        return sum(float(count) for _, _, count in counts)

    def ids(self, prefix: str) -> int:
        with TransactionClient(
            {"bootstrap.servers": self.bootstrap_servers}, Attempt(self.bootstrap_servers, 60)
        ) as client:
            found, refused = client.transactional_ids()
        assert not refused, refused
        return sum(name.startswith(prefix) for name in found.values())

    def committed_records(self, topic: str, partitions: int) -> int:
        """Read to the end, as committed, and counted: markers are no records."""
        ends = self._admin.list_offsets({TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)})
        left = {at.partition for at, end in ends.items() if end.result(60).offset > 0}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "bench-counter",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 10,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        count, deadline = 0, time.monotonic() + _DEADLINE_S
        try:
            while left:
                assert time.monotonic() < deadline, f"no end of {topic} in {sorted(left)}"
                for message in consumer.consume(10_000, 1.0):
                    if message.error() is None:
                        count += 1
                    else:
                        left.discard(message.partition())
        finally:
            consumer.close()
        return count


def fill(scene: Scene, topic: str, partitions: int, records: int) -> None:
    """As many as asked for, evenly over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": scene.bootstrap_servers,
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    batch = [{"value": VALUE} for _ in range(500)]
    for number in range(records // len(batch)):
        while len(producer) > 400_000:
            producer.poll(0.01)
        assert producer.produce_batch(topic, batch, partition=number % partitions) == len(batch)
    assert producer.flush(120) == 0


def feed(scene: Scene, topic: str, partitions: int, per_s: int, seconds: float) -> int:
    """So many records a second, a tenth of a second's at a time, over all partitions in turn; returns how many."""
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers, "linger.ms": 5})
    fed, at, due = 0, 0, time.monotonic()
    end = due + seconds
    while due < end:
        for _ in range(per_s // 10):
            producer.produce(topic, VALUE, partition=at)
            at = (at + 1) % partitions
        fed += per_s // 10
        producer.poll(0)
        due += 0.1
        time.sleep(max(0.0, due - time.monotonic()))
    assert producer.flush(60) == 0
    return fed


def definition(guarantee: ProcessingGuarantee, source: str, sink: str) -> PipelineDefinition:
    return PipelineDefinition(
        cluster="bench",
        source_topics=(source,),
        group_id=f"bench-{uuid.uuid4().hex[:8]}",
        sink_topic=sink,
        processing_guarantee=guarantee,
        tasks_per_instance=TASKS,
        spark=SparkSettings(master="local"),
    )


@contextmanager
def tasks(scene: Scene, chosen: PipelineDefinition, partitions: int) -> Generator[tuple[list[int], list[Shared]]]:
    """Two tasks, each with its half of the partitions, and paused."""
    (source,) = chosen.source_topics
    is_one_each = chosen.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    mappings = tuple(
        PartitionMapping(
            topic=source,
            partition=number,
            transactional_id=transactional_id.for_partition(
                prefix="fl", group=chosen.group_id, topic=source, partition=number
            ),
        )
        for number in range(partitions)
    )
    shared = [Shared.new() for _ in range(TASKS)]
    processes = [
        multiprocessing.get_context("spawn").Process(
            target=_task,
            args=(
                msgspec.json.encode(
                    TaskSpecification(
                        pipeline="bench",
                        run_id="bench",
                        ordinal=0,
                        lease=1,
                        task=task,
                        attempt=0,
                        definition=chosen,
                        client_config={"bootstrap.servers": scene.bootstrap_servers},
                        transactional_id=None if is_one_each else f"fl.t.{chosen.group_id}.0.{task}",
                        mappings=mappings if is_one_each else (),
                        start_paused=True,
                    )
                ),
                shared[task],
            ),
        )
        for task in range(TASKS)
    ]
    for process in processes:
        process.start()
    try:
        deadline = time.monotonic() + _DEADLINE_S
        while [one.partitions.value for one in shared] != [partitions // TASKS] * TASKS:
            assert time.monotonic() < deadline, f"partitions of the tasks: {[one.partitions.value for one in shared]}"
            assert all(process.is_alive() for process in processes), "a task has ended"
            time.sleep(0.1)
        yield [process.pid for process in processes if process.pid is not None], shared
    finally:
        for process in processes:
            process.kill()
            process.join()


def at_full_speed(scene: Scene, guarantee: ProcessingGuarantee, source: str, partitions: int, records: int) -> float:
    """Records a second."""
    sink = scene.topic(partitions)
    chosen = definition(guarantee, source, sink)
    with tasks(scene, chosen, partitions) as (_, shared):
        for one in shared:
            one.goes.set()
        first: tuple[float, int] | None = None
        now, total = wait_for_commits(scene, chosen, partitions, 1)
        first = (now, total)
        now, total = wait_for_commits(scene, chosen, partitions, records)
    assert scene.committed_records(sink, partitions) == records
    scene.delete(sink)
    return (total - first[1]) / (now - first[0])


def wait_for_commits(scene: Scene, chosen: PipelineDefinition, partitions: int, wanted: int) -> tuple[float, int]:
    """When at least so many records were committed for the group, and how many."""
    consumer = Consumer(
        {
            "bootstrap.servers": scene.bootstrap_servers,
            "group.id": chosen.group_id,
            "isolation.level": "read_uncommitted",
        }
    )
    asked = [TopicPartition(chosen.source_topics[0], number) for number in range(partitions)]
    deadline = time.monotonic() + _DEADLINE_S
    try:
        while True:
            total = sum(max(0, entry.offset) for entry in consumer.committed(asked, 10))
            if total >= wanted:
                return time.monotonic(), total
            assert time.monotonic() < deadline, f"{total} of {wanted} records committed after {_DEADLINE_S:g} s"
            time.sleep(0.05)
    finally:
        consumer.close()


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
    assert scene.committed_records(sink, partitions) == fed
    scene.delete(source, sink)
    return figures


def cpu_s(pid: int) -> float:
    """Processor time of a process with all its threads, since it began."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def clients(pid: int) -> int:
    return sum((task / "comm").read_text().strip() == "rdk:main" for task in Path(f"/proc/{pid}/task").iterdir())


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
    (jmx_port,) = free_ports(1)
    with KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False, jmx_port=jmx_port)) as kafka:
        scene = Scene(kafka, jmx_port)
        for partitions in map(int, arguments.partitions.split(",")):
            source = scene.topic(partitions)
            fill(scene, source, partitions, arguments.records)
            for number in range(arguments.rounds):
                for guarantee in GUARANTEES[:: -1 if number % 2 else 1]:
                    figures = steady(scene, guarantee, partitions, arguments.per_second, arguments.seconds)
                    rate = at_full_speed(scene, guarantee, source, partitions, arguments.records)
                    found = {"records_per_second": rate, **figures}
                    found = {key: round(value, 2) for key, value in found.items()}
                    rounds.append({"partitions": partitions, "round": number, "guarantee": guarantee, **found})
                    print(rounds[-1], flush=True)
            scene.delete(source)
    keep(
        "guarantees",
        on,
        {
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
    """Of each figure, by partitions and guarantee."""
    by: dict[tuple[object, object], list[dict[str, object]]] = {}
    for one in rounds:
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
