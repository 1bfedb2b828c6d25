"""One of three brokers is killed or frozen under load: leaders and coordinators move; each record is there once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import TOPIC as TRANSACTION_STATE
from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaBroker, KafkaCluster
from tests.support import verifier
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.topics import delete_topics
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow]

# The longest of several waits, one after another: a coordinator that is found again, a transaction that times out.
MOVED_WITHIN_S = 120.0
Find = Callable[[TestPipeline], int]
Fault = Callable[[KafkaBroker], AbstractContextManager[None]]


def transaction_coordinator(pipeline: TestPipeline) -> int:
    partition = transaction_log_partition(pipeline.transactional_id(0))
    return leader_of(pipeline, TRANSACTION_STATE, partition)


def group_coordinator(pipeline: TestPipeline) -> int:
    group = pipeline.definition.group_id
    # Kept until the answer has come: an unreferenced client is closed, and its futures never end.
    asking = admin(pipeline)
    return asking.describe_consumer_groups([group])[group].result(20).coordinator.id


def leader_of_the_sink(pipeline: TestPipeline) -> int:
    return leader_of(pipeline, pipeline.sink, 0)


def leader_of(pipeline: TestPipeline, topic: str, partition: int) -> int:
    return admin(pipeline).list_topics(topic, timeout=20).topics[topic].partitions[partition].leader


def admin(pipeline: TestPipeline) -> Any:
    return AdminClient({"bootstrap.servers": pipeline.bootstrap_servers})


@contextmanager
def killed(broker: KafkaBroker) -> Generator[None]:
    broker.kill()
    try:
        yield
    finally:
        broker.restart()


@contextmanager
def frozen(broker: KafkaBroker) -> Generator[None]:
    """It answers nothing and closes nothing; thawed, it goes on as if it still led what it led."""
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


@pytest.fixture
def pipeline(kafka_cluster3: KafkaCluster, protocol: GroupProtocol) -> Generator[TestPipeline]:
    made = TestPipeline.create(kafka_cluster3.bootstrap_servers, partitions=4, group_protocol=protocol)
    yield made
    kafka_cluster3.wait_until_complete()
    delete_topics(made.bootstrap_servers, [made.source, made.sink])


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("fault", [killed, frozen])
@pytest.mark.parametrize("find", [transaction_coordinator, group_coordinator, leader_of_the_sink])
def test_a_broker_that_is_away_costs_time_and_no_record(
    kafka_cluster3: KafkaCluster, pipeline: TestPipeline, find: Find, fault: Fault
) -> None:
    bootstrap, group = pipeline.bootstrap_servers, pipeline.definition.group_id
    feeder = Feeder(pipeline, records_per_s=400)
    with running(pipeline.specification()) as first, running(pipeline.specification(task=1)) as second:
        tasks = (first, second)
        for task in tasks:
            task.wait_for_partitions(2)
        feeder.start()
        try:
            wait_until_all_go_on(tasks)
            broker = kafka_cluster3.broker(find(pipeline))
            with fault(broker):
                # Records from before its absence are processed when more than a second's records came after it.
                wait_until_all_go_on(tasks, records=400)
            kafka_cluster3.wait_until_complete()
            wait_until_all_go_on(tasks)
        finally:
            feeder.stop()
        ends = verifier.end_offsets(bootstrap, pipeline.source, verifier.READ_COMMITTED)
        wait_for(
            lambda: verifier.committed_offsets(bootstrap, group) == {(pipeline.source, n): e for n, e in ends.items()},
            MOVED_WITHIN_S,
            lambda: f"the group at {ends}; it is at {verifier.committed_offsets(bootstrap, group)}",
        )
        for task in tasks:
            task.drain()
    pipeline.assert_whole()


def wait_until_all_go_on(tasks: tuple[TaskThread, ...], *, records: int = 1) -> None:
    """Each task has read and committed so many more records than by now."""
    for task, wanted in [(task, task.control.last.counters.records_in + records) for task in tasks]:
        task.wait_until(
            lambda seen, wanted=wanted: seen.counters.records_in >= wanted,
            f"{records} more committed records",
            deadline_s=MOVED_WITHIN_S,
        )
