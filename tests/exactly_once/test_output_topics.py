"""On brokers that create topics on demand, as Kafka does by default: none of our clients lets them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, ProcessingGuarantee
from app.products.conformance.checking.clients import Writer
from app.products.demo.feed import Feed
from app.products.files.reader.errors import ReferencesUnreadableError
from app.products.files.reader.topic import Topic
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics, unique_name
from tests.support.waiting import wait_for
from workers.audit.brokers import ClusterBrokers
from workers.loop.client_config import (
    admin_config,
    consumer_config,
    idempotent_producer_config,
    reader_config,
    transactional_producer_config,
)
from workers.loop.control import TaskSpecification
from workers.loop.errors import PipelineStopError
from workers.loop.producing.output_topics import OutputTopics
from workers.transforms import Output, Processed
from workers.transforms.identity import as_output

ROUTED = b"9:"


class Route:
    """Sends what begins with 9: to another topic, and a copy of it to the sink."""

    is_identity = False

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def process(self, messages: list[Message]) -> Processed:
        outputs: list[Output] = []
        inputs: list[int] = []
        for index, message in enumerate(messages):
            output = as_output(message)
            outputs.append(output)
            inputs.append(index)
            if (message.value() or b"").startswith(ROUTED):
                outputs.append(output._replace(topic=self.topic))
                inputs.append(index)
        return Processed(outputs, [], inputs)


def exists(bootstrap_servers: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET}).list_topics(timeout=20).topics


def feed_around_one(pipeline: TestPipeline) -> None:
    pipeline.feed(5)
    pipeline.feed_value(ROUTED + b"00000000 x")
    pipeline.feed(5)


@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_record_for_a_topic_that_does_not_exist_is_a_bad_one(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(
        partitions=1, processing_guarantee=guarantee, errors=ErrorHandling(policy=FailurePolicy.SKIP)
    )
    feed_around_one(pipeline)
    missing = unique_name("tenant")
    with running(pipeline.specification(), transform=Route(missing)) as task:
        task.wait_for_records(11)
        task.drain()
    assert task.control.last.counters.records_skipped == 1
    assert any(f"{pipeline.source}-0 offset 5 cannot be processed" in event.message for event in task.control.events)
    assert any(f"there is no topic {missing}" in event.message for event in task.control.events)
    # The copy for the sink is not written either.
    pipeline.assert_whole()
    assert not exists(pipeline.bootstrap_servers, missing)


def test_such_a_record_is_a_dead_letter_of_the_same_transaction(make_pipeline: MakePipeline) -> None:
    letters = unique_name("letters")
    pipeline = make_pipeline(
        partitions=1, errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=letters)
    )
    create_topic(pipeline.bootstrap_servers, letters)
    feed_around_one(pipeline)
    with running(pipeline.specification(), transform=Route(unique_name("tenant"))) as task:
        task.wait_for_records(11)
        task.drain()
    pipeline.assert_whole()
    found = verifier.read_decided(pipeline.bootstrap_servers, letters)
    assert [record.value for record in found] == [ROUTED + b"00000000 x"]
    delete_topics(pipeline.bootstrap_servers, [letters])


def test_policy_fail_stops_at_such_a_record(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    feed_around_one(pipeline)
    with running(pipeline.specification(), transform=Route("tenant-that-is-not-there")) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source}-0 offset 5 cannot be processed" in str(error)
    assert "there is no topic tenant-that-is-not-there" in str(error)


def test_dead_letters_without_a_topic_stop_the_pipeline(make_pipeline: MakePipeline) -> None:
    letters = unique_name("letters")
    pipeline = make_pipeline(
        partitions=1, errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=letters)
    )
    feed_around_one(pipeline)
    with running(pipeline.specification(), transform=Route(unique_name("tenant"))) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"dead letters cannot be written: there is no topic {letters}" in str(error)
    assert not exists(pipeline.bootstrap_servers, letters)


def test_without_the_lookup_such_a_record_holds_the_task(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    def nothing(_self: OutputTopics, _names: object) -> dict[str, Exception]:
        return {}

    monkeypatch.setattr(OutputTopics, "unwritable", nothing)
    pipeline = make_pipeline(
        partitions=1, transaction_timeout_ms=1_000, errors=ErrorHandling(policy=FailurePolicy.SKIP)
    )
    feed_around_one(pipeline)
    with running(pipeline.specification(), transform=Route(unique_name("tenant"))) as task:
        task.wait_until(lambda seen: seen.counters.transactions_aborted >= 3, "three aborted checkpoints")
        # Those before it may have gone, in smaller checkpoints; it never does.
        assert task.control.last.counters.records_in <= 5


def test_routed_topic_that_is_deleted_makes_its_records_bad_ones(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(
        partitions=1, transaction_timeout_ms=2_000, errors=ErrorHandling(policy=FailurePolicy.SKIP)
    )
    tenant = unique_name("tenant")
    create_topic(pipeline.bootstrap_servers, tenant)
    with running(pipeline.specification(), transform=Route(tenant)) as task:
        pipeline.feed_value(ROUTED + b"00000000 x")
        task.wait_for_records(1)
        delete_topics(pipeline.bootstrap_servers, [tenant])
        wait_for(lambda: not exists(pipeline.bootstrap_servers, tenant), 20, "no such topic any more")
        feed_around_one(pipeline)
        task.wait_for_records(12)
        task.drain()
    assert task.control.last.counters.records_skipped == 1
    assert not exists(pipeline.bootstrap_servers, tenant)


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE])
def test_sink_that_is_deleted_under_load_stops_the_pipeline_and_stays_deleted(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(partitions=3, processing_guarantee=guarantee, transaction_timeout_ms=3_000)
    pipeline.feed(500)
    with running(pipeline.specification()) as task:
        task.wait_for_records(1_500)
        delete_topics(pipeline.bootstrap_servers, [pipeline.sink])
        pipeline.feed(500)
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"the sink topic {pipeline.sink} was deleted while the pipeline was writing to it" in str(error)
    assert not exists(pipeline.bootstrap_servers, pipeline.sink)


def test_sink_that_is_recreated_with_fewer_partitions_stops_the_pipeline(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=4, transaction_timeout_ms=3_000)
    pipeline.feed(20)
    with running(pipeline.specification()) as task:
        task.wait_for_records(80)
        delete_topics(pipeline.bootstrap_servers, [pipeline.sink])
        wait_for(lambda: not exists(pipeline.bootstrap_servers, pipeline.sink), 20, "no such topic any more")
        create_topic(pipeline.bootstrap_servers, pipeline.sink, partitions=1)
        pipeline.feed(20)
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert "deleted and recreated, with 1 instead of 4 partitions" in str(error)


def look_for(topic: str, client: Any, *, writes: bool = False) -> None:
    """By its name, as a lookup does, and as a record for it does."""
    with contextlib.suppress(KafkaException):
        client.list_topics(topic, timeout=10)
    if writes:
        client.produce(topic, b"x")
        client.flush(1)
        client.purge()


def look_by_transactional(specification: TaskSpecification, topic: str) -> None:
    producer = Producer(transactional_producer_config(specification))
    producer.init_transactions(20)
    producer.begin_transaction()
    look_for(topic, producer, writes=True)


def look_by_idempotent(specification: TaskSpecification, topic: str) -> None:
    look_for(topic, Producer(idempotent_producer_config(specification)), writes=True)


def look_by_consumer(specification: TaskSpecification, topic: str) -> None:
    for settings in (consumer_config(specification), reader_config(specification)):
        consumer = Consumer({**settings})
        consumer.subscribe([topic])
        consumer.poll(1)
        look_for(topic, consumer)
        consumer.close()


def look_by_admin(specification: TaskSpecification, topic: str) -> None:
    look_for(topic, AdminClient({**admin_config(specification)}))


def look_by_audit(specification: TaskSpecification, topic: str) -> None:
    ClusterBrokers(specification.client_config, audit_id="a").partitions(topic)


def look_by_files(specification: TaskSpecification, topic: str) -> None:
    reader = Topic(topic, specification.client_config)
    with pytest.raises(ReferencesUnreadableError):
        reader.partitions()
    reader.close()


def look_by_conformance(specification: TaskSpecification, topic: str) -> None:
    look_for(topic, Writer({**specification.client_config, **QUIET}).producer, writes=True)


def look_by_demo(specification: TaskSpecification, topic: str) -> None:
    feed = Feed(bootstrap_servers=specification.client_config["bootstrap.servers"], topic=topic, partitions=1)
    look_for(topic, feed._producer, writes=True)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "look",
    [
        look_by_transactional,
        look_by_idempotent,
        look_by_consumer,
        look_by_admin,
        look_by_audit,
        look_by_files,
        look_by_conformance,
        look_by_demo,
    ],
)
def test_no_client_of_fenceline_creates_the_topic_that_it_looks_up(
    make_pipeline: MakePipeline, look: Callable[[TaskSpecification, str], None]
) -> None:
    pipeline, missing = make_pipeline(partitions=1), unique_name("misspelt")
    look(pipeline.specification(), missing)
    assert not exists(pipeline.bootstrap_servers, missing)


def test_a_client_with_librdkafkas_defaults_does(make_pipeline: MakePipeline) -> None:
    """The negative control: what the broker of the tests does when it is let."""
    pipeline, topic = make_pipeline(partitions=1), unique_name("misspelt")
    look_for(topic, AdminClient({"bootstrap.servers": pipeline.bootstrap_servers}))
    wait_for(lambda: exists(pipeline.bootstrap_servers, topic), 20, "the topic that was not requested")
    delete_topics(pipeline.bootstrap_servers, [topic])
