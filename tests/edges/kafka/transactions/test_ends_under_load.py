"""Both ends of a growing log: records in between are blocked, or there are none."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.blocked.diagnosis import AdviceVerdict, Explanation
from app.core.blocked.service.explaining import explain_group, explain_topic
from app.core.clusters.partition import Partition
from app.core.journals.log_look import Landmark
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.transactions.searching import KafkaSearch
from app.products.partition_log.service import PartitionLog, look_into_log
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_LOOKS = 12


@contextmanager
def written_all_the_time(scene: Scene, topic: str) -> Generator[None]:
    """Records without a transaction, as fast as the broker takes them one after the other."""
    stop, written = threading.Event(), [0]

    def write() -> None:
        producer = Producer({**scene.connection, **QUIET, "linger.ms": 0})
        while not stop.is_set():
            producer.produce(topic, b"plain", partition=0)
            producer.poll(0)
            written[0] += 1
            if written[0] % 50 == 0:
                producer.flush(10)
        producer.flush(10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_for(lambda: written[0] > 500, 20, "500 records")
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def group(scene: Scene) -> str:
    return unique_name("g")


def commit_the_beginning(scene: Scene, topic: str, group: str) -> None:
    consumer = Consumer({**scene.connection, **QUIET, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


async def look_at_the_end(brokers: KafkaBrokers, scene: Scene, topic: str) -> PartitionLog:
    return await look_into_log(
        brokers,
        scene.connection,
        ask_ids=lambda wanted: brokers.read_transactional_ids(scene.connection, wanted, timeout_s=10),
        topic=topic,
        partition=0,
        start=Landmark.END,
        limit=1,
    )


def sentences(found: Explanation) -> str:
    return " ".join([found.headline, *(f"{one.headline} {one.advice}" for one in found.partitions)])


async def test_growing_log_without_transactions_is_never_reported_as_blocked(scene: Scene, group: str) -> None:
    topic = scene.topic()
    at = Partition(topic, 0)
    search, brokers = KafkaSearch(environment={}, secrets_dir=None), KafkaBrokers(environment={}, secrets_dir=None)
    commit_the_beginning(scene, topic, group)
    held: list[str] = []
    with written_all_the_time(scene, topic), search.open_search(scene.connection, timeout_s=10) as asking:
        there = asking.all_partitions()
        for _ in range(_LOOKS):
            one = (await explain_topic(scene.brokers, scene.connection, topic, scene.asked)).partitions[0]
            held += [] if one.verdict is AdviceVerdict.FREE else [f"explained: {one.headline}"]
            said = sentences(await explain_group(scene.brokers, scene.connection, group, scene.asked))
            held += [f"group: {said}"] if "open transaction" in said or "last stable" in said else []
            end = asking.stable_ends(there).ends[at]
            held += [f"search: {end}"] if end.last_stable < end.high_watermark else []
            offsets = (await brokers.offsets(scene.connection, [at]))[at]
            held += [f"offsets: {offsets}"] if offsets.last_stable < offsets.high_watermark else []
            bounds = (await look_at_the_end(brokers, scene, topic)).bounds
            held += [f"log: {bounds}"] if bounds.last_stable_offset < bounds.high_watermark else []
    await brokers.close()
    assert held == []


async def test_open_transaction_is_named_though_the_log_grows_behind_it(scene: Scene, group: str) -> None:
    """The control: the same reads under the same load do find an open transaction."""
    topic = scene.topic()
    scene.write(topic, records=2)
    commit_the_beginning(scene, topic, group)
    name, producer = scene.leave_open(topic)
    with written_all_the_time(scene, topic):
        one = (await explain_topic(scene.brokers, scene.connection, topic, scene.asked)).partitions[0]
        said = sentences(await explain_group(scene.brokers, scene.connection, group, scene.asked))
    assert one.holder is not None
    assert one.holder.transactional_id == name
    assert "more offsets are behind an open transaction" in said
    producer.abort_transaction(20)
