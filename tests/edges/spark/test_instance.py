"""One instance on a real standalone cluster, without a server: its input, its work, its outcome."""

from __future__ import annotations

import stat
import sys
import venv
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from msgspec.structs import replace

from app.core.ids.transaction_counts import count_transactions
from app.core.ids.transactional_id import for_partition
from app.core.pipelines.pipeline import Filter, ProcessingGuarantee, SparkSettings, StepOperator, Steps
from app.core.runs.observation import MasterWord, ProcessWord
from app.core.wire.specification import MappedPartition, TaskIdentity
from app.edges.embedded.spark import SparkCluster
from app.edges.kafka.transaction_journal import read_transaction_journal
from app.edges.spark import conf
from tests.conftest import MakeTopic
from tests.support.spark_instances import SparkInstances, python_children
from tests.support.waiting import wait_for
from workers.spark.exit_codes import DriverExitCode

pytestmark = pytest.mark.slow


def fill(bootstrap_servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(count):
        producer.produce(topic, key=str(number % 7), value=str(number))
    assert producer.flush(30) == 0


def read_committed(bootstrap_servers: str, topic: str, expected: int, deadline_s: float = 60) -> list[bytes]:
    """Every value that a read_committed reader finds once there are at least `expected`, in a moment of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    values: list[bytes] = []
    consumer.subscribe([topic])

    def enough() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return len(values) >= expected

    try:
        wait_for(enough, deadline_s, lambda: f"{expected} records in {topic}, found {len(values)}")
    finally:
        consumer.close()
    return values


@pytest.mark.core
def test_an_instance_runs_without_a_server_and_drains_on_sigterm(
    spark_instances: SparkInstances, spark_cluster: SparkCluster, make_topic: MakeTopic
) -> None:
    """One life, checked in all respects, as a Spark start costs seconds."""
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    fill(spark_instances.bootstrap_servers, source, 500)
    definition = spark_instances.definition(source=source, sink=sink, tasks=2)
    one = spark_instances.submit(spark_instances.specification(definition))
    specification_file = one.files.specification
    assert stat.S_IMODE(specification_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(one.files.folder.stat().st_mode) == 0o700

    values = read_committed(spark_instances.bootstrap_servers, sink, 500)
    assert sorted(map(int, values)) == list(range(500))
    assert not specification_file.exists(), "it is removed before the stage begins"

    seen = one.observe()
    assert (seen.process, seen.master) == (ProcessWord.ALIVE, MasterWord.NOT_ASKED)
    executors = spark_cluster.executors(one.application_id)
    assert len(executors) == 2, "one executor a task"
    wanted = conf.effective(
        definition,
        application_name=f"fenceline {one.specification.run_id}-0-1",
        python=sys.executable,
        driver_python=sys.executable,
        local_dir=str(one.files.local_dir),
    )
    effective = one.effective_conf()
    # Spark puts options of its own before ours.
    assert {key: effective[key][-len(value) :] for key, value in wanted.conf.items()} == wanted.conf
    assert effective["spark.master"] == wanted.master

    one.sigterm()
    ended = one.wait_until_gone(30)
    assert ended.outcome is not None
    assert (ended.outcome.kind, ended.outcome.message) == ("drained", "drained on SIGTERM")
    assert one.exit_code() == DriverExitCode.DRAINED
    wait_for(
        lambda: one.observe().master is MasterWord.FINISHED,
        15,
        lambda: f"the master's word, now {one.observe().master}",
    )


def test_a_local_master_retries_a_killed_worker_and_drains(
    spark_instances: SparkInstances, make_topic: MakeTopic
) -> None:
    """Plain `local[k]` never retries a task: the launcher's `local[k,F]` does."""
    source, sink = make_topic(), make_topic()
    fill(spark_instances.bootstrap_servers, source, 50)
    definition = replace(spark_instances.definition(source=source, sink=sink), spark=SparkSettings(master="local[1]"))
    one = spark_instances.submit(spark_instances.specification(definition))
    read_committed(spark_instances.bootstrap_servers, sink, 50)
    assert one.instance.jvm_pid is not None
    (task,) = [
        process
        for process in python_children(one.instance.jvm_pid)
        if "pyspark.daemon" in process.cmdline() and not process.children()
    ]
    task.kill()
    fill(spark_instances.bootstrap_servers, source, 50)
    assert len(read_committed(spark_instances.bootstrap_servers, sink, 100)) == 100
    one.sigterm()
    assert one.wait_until_gone(30).outcome is not None
    assert one.exit_code() == DriverExitCode.DRAINED


def test_an_instance_of_exactly_once_gives_each_partition_its_id(
    spark_instances: SparkInstances, make_topic: MakeTopic
) -> None:
    """The specification has the id of one partition; the other one did not exist when it was made."""
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    fill(spark_instances.bootstrap_servers, source, 500)
    definition = replace(
        spark_instances.definition(source=source, sink=sink),
        processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE,
        spark=SparkSettings(master="local[1]"),
    )
    known = f"{definition.group_id}-0_0"
    specification = replace(
        spark_instances.specification(definition),
        tasks=(TaskIdentity(task=0, transactional_id=None),),
        mappings=(MappedPartition(topic=source, partition=0, transactional_id=known),),
    )
    one = spark_instances.submit(specification)
    values = read_committed(spark_instances.bootstrap_servers, sink, 500)
    assert sorted(map(int, values)) == list(range(500))
    by_formula = for_partition(prefix="fl", group=definition.group_id, topic=source, partition=1)
    connection = {"bootstrap.servers": spark_instances.bootstrap_servers}
    for name in (known, by_formula):
        assert count_transactions(read_transaction_journal(connection, prefixes=(name,)), prefixes=(name,)).committed
    one.sigterm()
    assert one.wait_until_gone(30).outcome is not None
    assert one.exit_code() == DriverExitCode.DRAINED


def test_a_record_that_the_policy_refuses_ends_the_instance_and_names_it(
    spark_instances: SparkInstances, make_topic: MakeTopic
) -> None:
    source, sink = make_topic(), make_topic()
    fill(spark_instances.bootstrap_servers, source, 3)
    definition = replace(
        spark_instances.definition(source=source, sink=sink),
        transform=Steps(steps=(Filter(field="delay", operator=StepOperator.GE, value=15),)),
    )
    one = spark_instances.submit(spark_instances.specification(definition))
    ended = one.wait_until_gone(90)
    assert ended.outcome is not None, one.log()[-3000:]
    assert ended.outcome.kind == "hopeless"
    assert source in ended.outcome.message
    assert one.exit_code() == DriverExitCode.HOPELESS


@pytest.mark.faults(keep=2, of="slow ends of Spark applications")
def test_tasks_that_never_reach_our_code_end_the_instance_with_sparks_reason(
    spark_instances: SparkInstances, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """An executor's Python without the worker's packages: the task dies while it is imported."""
    bare = tmp_path / "bare/bin/python"
    venv.create(tmp_path / "bare", symlinks=True)
    definition = spark_instances.definition(source=make_topic(), sink=make_topic())
    one = spark_instances.submit(spark_instances.specification(definition), worker_python=str(bare))
    ended = one.wait_until_gone(90)
    assert ended.outcome is not None, one.log()[-3000:]
    assert ended.outcome.kind == "failed"
    assert "No module named" in ended.outcome.message


@pytest.mark.faults(keep=2, of="slow ends of Spark applications")
def test_a_driver_without_executors_ends_by_itself(
    spark_instances: SparkInstances, spark_cluster: SparkCluster, make_topic: MakeTopic
) -> None:
    """A drain does not wait for executors that are not there any more."""
    source, sink = make_topic(), make_topic()
    fill(spark_instances.bootstrap_servers, source, 5)
    one = spark_instances.submit(spark_instances.specification(spark_instances.definition(source=source, sink=sink)))
    read_committed(spark_instances.bootstrap_servers, sink, 5)
    for node in spark_cluster.workers:
        node.kill()
    try:
        wait_for(lambda: not spark_cluster.executors(one.application_id), 20, "the end of its executors")
        one.sigterm()
        ended = one.wait_until_gone(40)
    finally:
        for node in spark_cluster.workers:
            node.start()
        spark_cluster.wait_until_ready()
    assert ended.outcome is not None
    assert ended.outcome.kind == "drained"
