"""How many records of 100 bytes a second the identity loop takes from topic to topic, exactly once.

python -m bench.identity_loop [--records N] [--tasks K] [--only bare|spark]

One broker, four partitions, commits every 100 ms. `bare` is one task in a Python process of its own; `spark` is the
same task (or K of them) in an instance on an embedded standalone cluster, submitted as the server submits it. The rate
is what the broker has committed for the group, from the first commit seen to the last record. Prints one JSON object
and writes it to bench/results/identity_loop.json. Whatever else the machine does counts against it: `load_before` and
`load_after` are the machine's load averages of one minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee, SparkSettings
from app.core.runs.instance import Instance, InstanceState
from app.core.wire.heartbeat import DesiredTaskState, EventKind
from app.core.wire.specification import InstanceSpecification, TaskIdentity
from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.spark import SparkCluster
from app.edges.spark.launcher import SubmitLauncher
from app.edges.spark.spark_submit import SparkSubmit
from workers.loop.control import ProducerIdentity, TaskSnapshot, TaskSpecification
from workers.loop.task import run_task
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.transforms.identity import IdentityTransform

PARTITIONS = 4
VALUE = b"x" * 100
RESULTS = Path(__file__).parent / "results" / "identity_loop.json"
_DEADLINE_S = 180.0


class SilentControl:
    """A control without a listener; the process is ended when the last record is committed."""

    def desired(self) -> DesiredTaskState:
        return DesiredTaskState.RUN

    def publish(self, snapshot: TaskSnapshot) -> None:
        pass

    def event(
        self,
        kind: EventKind,
        message: str,
        *,
        partitions: tuple[str, ...] = (),
        generation: int | None = None,
        error: str | None = None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        pass

    def tell_offsets(self, recorder: OffsetRecorder) -> None:
        pass

    def ask_is_current(self, *, timeout_s: float) -> bool | None:  # noqa: ARG002 - the signature of Control
        return None

    def ask_recorded(self, *, timeout_s: float) -> None:  # noqa: ARG002 - the signature of Control
        return None


def create_topics(bootstrap_servers: str, *names: str) -> None:
    # Its answers are futures of nothing in particular: there is no type to keep.
    admin: Any = AdminClient({"bootstrap.servers": bootstrap_servers})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        created.result(30)


def fill(bootstrap_servers: str, topic: str, records: int) -> None:
    """As many records as asked for, evenly over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    batch = [{"value": VALUE} for _ in range(2_500)]
    for number in range(0, records, len(batch)):
        while len(producer) > 400_000:
            producer.poll(0.01)
        taken = producer.produce_batch(topic, batch, partition=number // len(batch) % PARTITIONS)
        assert taken == len(batch)
    assert producer.flush(60) == 0


def definition(*, source: str, sink: str, tasks: int = 1, master: str = "local") -> PipelineDefinition:
    return PipelineDefinition(
        cluster="bench",
        source_topics=(source,),
        group_id=f"bench-{uuid.uuid4().hex[:8]}",
        sink_topic=sink,
        tasks_per_instance=tasks,
        spark=SparkSettings(master=master),
    )


def measure(
    bootstrap_servers: str, chosen: PipelineDefinition, records: int, *, cpu_s: Callable[[], float] | None = None
) -> dict[str, float]:
    """Watch the group's committed offsets until all `records` are in; records a second since the first commit seen.

    cpu_s: the processor time to divide by the records of the same time; None: none.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": chosen.group_id, "isolation.level": "read_uncommitted"}
    )
    partitions = [TopicPartition(chosen.source_topics[0], number) for number in range(PARTITIONS)]
    began_at, first, deadline = time.monotonic(), (0.0, 0), time.monotonic() + _DEADLINE_S
    cpu_at_first = 0.0
    try:
        while True:
            total = _committed(consumer, partitions)
            now = time.monotonic()
            if total and not first[1]:
                first = (now, total)
                cpu_at_first = 0.0 if cpu_s is None else cpu_s()
            if total == records:
                rate = (total - first[1]) / (now - first[0])
                found = {"records_per_second": round(rate), "seconds_to_first_commit": round(first[0] - began_at, 2)}
                if cpu_s is not None:
                    found["cpu_s_per_million"] = (cpu_s() - cpu_at_first) / (total - first[1]) * 1e6
                return found
            assert now < deadline, f"{total} of {records} records committed after {_DEADLINE_S:g} s"
            time.sleep(0.02)
    finally:
        consumer.close()


def _committed(consumer: Consumer, partitions: list[TopicPartition]) -> int:
    try:
        return sum(max(0, entry.offset) for entry in consumer.committed(partitions, 10))
    except KafkaException as error:
        # The group's coordinator takes a moment to come up with the first group of a new broker.
        print(error.args[0].str(), file=sys.stderr)
        return 0


def _bare(encoded: bytes) -> None:
    run_task(msgspec.json.decode(encoded, type=TaskSpecification), SilentControl(), transform=IdentityTransform())


@contextmanager
def bare_task(bootstrap_servers: str, chosen: PipelineDefinition) -> Generator[None]:
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
    process = multiprocessing.get_context("spawn").Process(target=_bare, args=(msgspec.json.encode(specification),))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


@contextmanager
def spark_instance(
    bootstrap_servers: str,
    chosen: PipelineDefinition,
    cluster: SparkCluster,
    folder: Path,
    *,
    transform_source: str | None = None,
    native_records: bool = True,
) -> Generator[None]:
    launcher = SubmitLauncher(
        SparkSubmit(
            cache_dir=folder / "cache",
            version="bench",
            python=sys.executable,
            java_home=find_java(may_fetch=False).home,
        ),
        state_dir=folder / "state",
        master_web_urls={cluster.master_url: cluster.master_web_url},
    )
    has_id = chosen.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
    specification = InstanceSpecification(
        fenceline_version="bench",
        pipeline="bench",
        revision=1,
        run_id=chosen.group_id,
        ordinal=0,
        lease=1,
        database_epoch="bench",
        definition=chosen,
        client_config={"bootstrap.servers": bootstrap_servers},
        transform_source=transform_source,
        native_records=native_records,
        tasks=tuple(
            TaskIdentity(task=task, transactional_id=f"fl.t.{chosen.group_id}.0.{task}" if has_id else None)
            for task in range(chosen.tasks_per_instance)
        ),
    )
    submitted = asyncio.run(launcher.submit(specification))
    now = datetime.now(UTC)
    instance = Instance(
        run_id=specification.run_id,
        ordinal=0,
        lease=1,
        revision=1,
        state=InstanceState.SUBMITTING,
        since=now,
        leased_at=now,
        host=submitted.host,
        jvm_pid=submitted.jvm_pid,
        process_started_at=submitted.started_at,
    )
    try:
        yield
    finally:
        asyncio.run(launcher.kill(instance))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--tasks", type=int, default=1, help="tasks of the Spark instance")
    parser.add_argument("--only", choices=["bare", "spark"])
    arguments = parser.parse_args()
    report: dict[str, object] = {
        "records": arguments.records,
        "record_bytes": len(VALUE),
        "partitions": PARTITIONS,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(jvm=Jvm(heap_mb=1024, quick_start=False)) as kafka,
    ):
        source = "bench-source"
        create_topics(kafka.bootstrap_servers, source)
        fill(kafka.bootstrap_servers, source, arguments.records)

        def run(
            name: str, start: Callable[[PipelineDefinition], AbstractContextManager[None]], **settings: object
        ) -> None:
            sink = f"bench-sink-{name}"
            create_topics(kafka.bootstrap_servers, sink)
            chosen = msgspec.structs.replace(definition(source=source, sink=sink), **settings)
            with start(chosen):
                report[name] = measure(kafka.bootstrap_servers, chosen, arguments.records)

        if arguments.only != "spark":
            run("bare", lambda chosen: bare_task(kafka.bootstrap_servers, chosen))
        if arguments.only != "bare":
            with SparkCluster.start(cores_per_worker=arguments.tasks) as cluster:
                run(
                    "spark",
                    lambda chosen: spark_instance(kafka.bootstrap_servers, chosen, cluster, Path(folder)),
                    tasks_per_instance=arguments.tasks,
                    spark=SparkSettings(master=cluster.master_url),
                )
    report["load_after"] = os.getloadavg()[0]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
