"""Unchanged records: keys, values, headers and timestamps, and only records that were committed upstream."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.kafka_clients import initialise
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics
from tests.support.verifier import Found

RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]], int]] = [
    (b"key", b"value", [], 1_700_000_000_000),
    (None, b"no key", [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)], 1_600_000_000_001),
    (b"tombstone", None, [("why", b"deleted")], 1),
    (b"", b"", [], 1_700_000_000_002),
    ("schlüssel".encode(), bytes(range(256)), [("kopf", b"\x00\xff")], 1_700_000_000_003),
]


@pytest.mark.core
@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE])
def test_keys_values_headers_and_timestamps_survive(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(partitions=3, processing_guarantee=guarantee)
    for number, (key, value, headers, timestamp) in enumerate(RECORDS):
        producer = Producer({"bootstrap.servers": pipeline.bootstrap_servers})
        producer.produce(pipeline.source, value, key, number % 3, timestamp=timestamp, headers=headers)
        assert producer.flush(20) == 0
    with running(pipeline.specification()) as task:
        task.wait_for_records(len(RECORDS))
        task.drain()

    def without_offsets(found: list[Found]) -> list[tuple[object, ...]]:
        return [(r.partition, r.key, r.value, r.headers, r.timestamp_ms) for r in found]

    source = verifier.read_all(pipeline.bootstrap_servers, pipeline.source)
    sink = verifier.read_all(pipeline.bootstrap_servers, pipeline.sink)
    assert without_offsets(sink) == without_offsets(source)
    assert len(sink) == len(RECORDS)


def test_queue_that_is_full_all_the_time_takes_every_record_once_and_in_order(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=2, producer_overrides={"queue.buffering.max.messages": "50"})
    pipeline.feed(3_000)
    with running(pipeline.specification()) as task:
        task.wait_for_records(6_000)
        task.drain()
    pipeline.assert_whole()


def test_sink_with_other_partitions_gets_each_key_in_one_partition_and_in_order(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=2)
    sink = f"{pipeline.sink}.five"
    create_topic(pipeline.bootstrap_servers, sink, partitions=5)
    for sequence in range(200):
        key = f"key-{sequence % 10}".encode()
        pipeline.feed_value(f"{sequence % 10}:{sequence:08d}".encode(), partition=sequence % 10 % 2, key=key)
    with running(pipeline.specification(sink_topic=sink)) as task:
        task.wait_for_records(200)
        task.drain()
    found = verifier.read_all(pipeline.bootstrap_servers, sink)
    places = {key: {record.partition for record in found if record.key == key} for key in {r.key for r in found}}
    assert len(places) == 10
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len({partition for partitions in places.values() for partition in partitions}) > 2
    expected = [f"{sequence % 10}:{sequence:08d}" for sequence in range(200)]
    assert verifier.audit(found, expected).is_exact
    delete_topics(pipeline.bootstrap_servers, [sink])


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_aborted_records_of_the_source_are_not_processed(make_pipeline: MakePipeline, protocol: GroupProtocol) -> None:
    """Rule 1's isolation level. The negative control is the source itself, read without it."""
    pipeline = make_pipeline(partitions=1, group_protocol=protocol)
    upstream = Producer(
        {"bootstrap.servers": pipeline.bootstrap_servers, "transactional.id": f"{pipeline.source}.upstream"}
    )
    initialise(upstream)
    for is_committed in (False, True, False):
        upstream.begin_transaction()
        for sequence in range(50):
            upstream.produce(pipeline.source, f"{int(is_committed)}:{sequence:08d}".encode(), partition=0)
        assert upstream.flush(20) == 0
        if is_committed:
            upstream.commit_transaction(20)
        else:
            upstream.abort_transaction(20)
    with running(pipeline.specification()) as task:
        task.wait_for_records(50)
        task.drain()
    pipeline.fed = [f"1:{sequence:08d}" for sequence in range(50)]
    pipeline.assert_whole()
    dirty = verifier.read_all(pipeline.bootstrap_servers, pipeline.source, isolation="read_uncommitted")
    assert len(dirty) == 150
