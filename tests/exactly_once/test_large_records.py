"""Records up to the brokers' limits, above the client's own; a record that no topic takes is bad, with the reason."""

from __future__ import annotations

import random
from collections.abc import Generator

import pytest

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from app.edges.embedded.kafka import Jvm, KafkaCluster
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics
from workers.loop.client_config import LARGEST_REQUEST_BYTES

LIMIT_BYTES = 8_000_000
LARGE = {"max.message.bytes": str(LIMIT_BYTES)}
GUARANTEES = pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
LAST_TWO = pytest.mark.parametrize(
    "guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE]
)


def incompressible(rng: random.Random, size_bytes: int) -> bytes:
    return rng.randbytes(size_bytes)


@pytest.fixture
def kafka_for_huge_records() -> Generator[str]:
    """A broker that has the heap for a request of 70 MB: one of 256 MB collects garbage for minutes, or dies of it."""
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jvm=Jvm(heap_mb=512)) as cluster:
        yield cluster.bootstrap_servers


def values(pipeline: TestPipeline, topic: str) -> list[bytes | None]:
    return [found.value for found in verifier.read_all(pipeline.bootstrap_servers, topic)]


@pytest.mark.core
@GUARANTEES
def test_records_up_to_the_sinks_own_limit_go_through(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee, rng: random.Random
) -> None:
    """Unfixed, librdkafka's 1,000,000 stopped the pipeline at the second."""
    pipeline = make_pipeline(partitions=1, processing_guarantee=guarantee, source_config=LARGE, sink_config=LARGE)
    large = [incompressible(rng, size) for size in (1_000_050, 5_000_000, LIMIT_BYTES - 100)]
    pipeline.feed(5)
    for value in large:
        pipeline.feed_value(value)
    pipeline.feed(5)
    with running(pipeline.specification()) as task:
        task.wait_for_records(13)
        task.drain()
    assert [value for value in values(pipeline, pipeline.sink) if len(value or b"") > 1_000] == large
    assert task.control.last.counters.transactions_aborted == 0


@pytest.mark.slow
def test_record_larger_than_the_queue_ever_was_goes_through(kafka_for_huge_records: str, rng: random.Random) -> None:
    """70 MB: unfixed, the queue of 64 MB never had room for it, and the loop asked for ever."""
    huge = {"max.message.bytes": "90000000"}
    pipeline = TestPipeline.create(
        kafka_for_huge_records, partitions=1, source_config=huge, sink_config=huge, transaction_timeout_ms=60_000
    )
    value = incompressible(rng, 1_000_000) * 70
    pipeline.feed_value(value, size_limit=90_000_000)
    pipeline.feed(5)
    with running(pipeline.specification()) as task:
        task.wait_for_records(6)
        task.drain()
    assert len(values(pipeline, pipeline.sink)[0] or b"") == len(value)


@LAST_TWO
def test_record_is_not_refused_for_its_uncompressed_size(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee
) -> None:
    """The source took it compressed, and so does the sink: the producer compresses from the first refusal on."""
    pipeline = make_pipeline(partitions=1, processing_guarantee=guarantee)
    pipeline.feed(5)
    pipeline.feed_value(b"a" * 3_000_000, compression="zstd")
    pipeline.feed(5)
    with running(pipeline.specification()) as task:
        task.wait_for_records(11)
        task.drain()
    assert sorted(len(value or b"") for value in values(pipeline, pipeline.sink))[-1] == 3_000_000
    assert [event.kind for event in task.control.events if event.kind is EventKind.BAD_RECORD] == []


@LAST_TWO
def test_too_large_record_is_bad_and_the_error_names_topic_limit_and_setting(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee, rng: random.Random
) -> None:
    pipeline = make_pipeline(
        partitions=1,
        processing_guarantee=guarantee,
        source_config=LARGE,
        errors=ErrorHandling(policy=FailurePolicy.SKIP),
    )
    pipeline.feed(5)
    pipeline.feed_value(incompressible(rng, 2_000_000))
    pipeline.feed(5)
    with running(pipeline.specification()) as task:
        task.wait_for_records(11)
        task.drain()
    found = pipeline.audit()
    assert (found.lost, found.unexpected) == ((), ())
    assert found.is_exact or guarantee is ProcessingGuarantee.AT_LEAST_ONCE
    assert task.control.last.counters.records_skipped == 1
    (event,) = [event for event in task.control.events if event.kind is EventKind.BAD_RECORD]
    assert f"{pipeline.source}-0 offset 5" in event.message
    assert f"See max.message.bytes=1048588 of {pipeline.sink}" in event.message


def test_too_large_dead_letter_stops_the_pipeline_and_names_its_topic(
    make_pipeline: MakePipeline, rng: random.Random
) -> None:
    pipeline = make_pipeline(partitions=1, source_config=LARGE)
    dead = f"{pipeline.sink}.dead"
    create_topic(pipeline.bootstrap_servers, dead)
    pipeline.feed_value(incompressible(rng, 2_000_000))
    errors = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=dead)
    with running(pipeline.specification(errors=errors)) as task:
        error = task.join_error()
    assert "the dead letter of a refused record is refused too" in str(error)
    assert f"See max.message.bytes=1048588 of {dead}" in str(error)
    delete_topics(pipeline.bootstrap_servers, [dead])


def test_record_larger_than_a_small_queue_is_bad_and_names_that_setting(make_pipeline: MakePipeline) -> None:
    """Unfixed, the loop waited for room in an empty queue for ever, without a poll of the consumer."""
    pipeline = make_pipeline(
        partitions=1,
        source_config=LARGE,
        sink_config=LARGE,
        producer_overrides={"queue.buffering.max.kbytes": "1024"},
        errors=ErrorHandling(policy=FailurePolicy.SKIP),
    )
    pipeline.feed(5)
    pipeline.feed_value(b"L" * 1_500_000)
    pipeline.feed(5)
    with running(pipeline.specification()) as task:
        task.wait_for_records(11)
        task.drain()
    assert pipeline.audit().is_exact
    (event,) = [event for event in task.control.events if event.kind is EventKind.BAD_RECORD]
    assert "queue.buffering.max.kbytes" in event.message
    assert pipeline.sink in event.message


@pytest.mark.slow
def test_record_larger_than_a_request_is_bad_and_reaches_no_broker(make_pipeline: MakePipeline) -> None:
    """A broker closes the connection of a larger request without an error, and the client would send it for ever."""
    pipeline = make_pipeline(partitions=1, errors=ErrorHandling(policy=FailurePolicy.SKIP))
    pipeline.feed(5)
    pipeline.feed_value(b"a" * (LARGEST_REQUEST_BYTES - 10_000), compression="zstd", size_limit=200_000_000)
    pipeline.feed(5)
    with running(pipeline.specification()) as task:
        task.wait_for_records(11)
        task.drain()
    assert pipeline.audit().is_exact
    (event,) = [event for event in task.control.events if event.kind is EventKind.BAD_RECORD]
    assert f"brokers take requests of {LARGEST_REQUEST_BYTES} bytes (socket.request.max.bytes)" in event.message
