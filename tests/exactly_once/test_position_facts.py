"""Facts about positions that the loop uses, on the client itself: a version that differs fails here first."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.core.pipelines.pipeline import GroupProtocol
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.waiting import wait_for

PROTOCOLS = pytest.mark.parametrize("protocol", list(GroupProtocol))
MakeConsumer = Callable[[TestPipeline], Consumer]


@pytest.fixture
def make_consumer() -> Generator[MakeConsumer]:
    made: list[Consumer] = []

    def make(pipeline: TestPipeline) -> Consumer:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": pipeline.bootstrap_servers,
            "group.id": pipeline.definition.group_id,
            "group.protocol": pipeline.definition.group_protocol.value,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
        }
        if pipeline.definition.group_protocol is GroupProtocol.CLASSIC:
            settings |= {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 4_000}
        made.append(Consumer(settings))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def stopped_at(consumer: Consumer) -> list[tuple[int | None, int | None]]:
    """Polls once; partition and offset of each error that says that the client has stopped there."""
    messages = consumer.consume(10, 0.2)
    stops: list[tuple[int | None, int | None]] = []
    for message in messages:
        error = message.error()
        assert error is not None, f"a record was delivered: {message.partition()} {message.offset()}"
        assert error.code() == KafkaError._AUTO_OFFSET_RESET  # pyright: ignore[reportPrivateUsage]
        stops.append((message.partition(), message.offset()))
    return stops


@PROTOCOLS
def test_client_says_once_where_it_stopped_refuses_a_seek_and_begins_again_when_it_is_assigned(
    make_pipeline: MakePipeline, make_consumer: MakeConsumer, protocol: GroupProtocol
) -> None:
    pipeline = make_pipeline(partitions=1, group_protocol=protocol)
    pipeline.feed(100)
    consumer = make_consumer(pipeline)
    at = TopicPartition(pipeline.source, 0)

    def paused(client: Consumer, partitions: list[TopicPartition]) -> None:
        client.incremental_assign(partitions)
        client.pause(partitions)

    consumer.subscribe([pipeline.source], on_assign=paused)
    # Nothing is committed, and the partition is paused from its first moment.
    assert wait_for(lambda: stopped_at(consumer), 25, "the stop") == [(0, None)]
    with pytest.raises(KafkaException) as caught:
        consumer.seek(TopicPartition(pipeline.source, 0, 50))
    assert caught.value.args[0].code() == KafkaError._STATE  # pyright: ignore[reportPrivateUsage]

    consumer.commit(offsets=[TopicPartition(pipeline.source, 0, 500)], asynchronous=False)
    consumer.incremental_unassign([at])
    consumer.incremental_assign([at])
    consumer.resume([at])
    # Behind the end.
    assert wait_for(lambda: stopped_at(consumer), 25, "the second stop") == [(0, 500)]
    assert consumer.position([at])[0].offset < 0

    consumer.commit(offsets=[TopicPartition(pipeline.source, 0, 90)], asynchronous=False)
    consumer.incremental_unassign([at])
    consumer.incremental_assign([at])
    delivered: list[Message] = []
    wait_for(lambda: delivered.extend(consumer.consume(100, 0.2)) or len(delivered) == 10, 25, "the last ten records")
    assert [message.offset() for message in delivered] == list(range(90, 100))


@PROTOCOLS
def test_position_of_a_partition_that_went_and_came_back_is_unknown_until_something_is_read(
    make_pipeline: MakePipeline, make_consumer: MakeConsumer, protocol: GroupProtocol
) -> None:
    """Else an old position could be committed over what another owner has committed meanwhile."""
    pipeline = make_pipeline(partitions=2, group_protocol=protocol)
    pipeline.feed(100)
    first, second = make_consumer(pipeline), make_consumer(pipeline)
    everything = [TopicPartition(pipeline.source, number, 0) for number in range(2)]
    first.commit(offsets=everything, asynchronous=False)
    first.subscribe([pipeline.source])
    read: list[Message] = []
    wait_for(lambda: read.extend(first.consume(200, 0.2)) or len(read) == 200, 25, "everything read")
    first.commit(offsets=first.position(first.assignment()), asynchronous=False)

    second.subscribe([pipeline.source])

    def is_shared() -> bool:
        for consumer in (first, second):
            assert consumer.consume(1, 0.1) == []
        return len(first.assignment()) == len(second.assignment()) == 1

    wait_for(is_shared, 25, "one partition each")
    (moved,) = second.assignment()
    assert first.position([moved])[0].offset < 0
    # The other owner reads and commits, and gives it back.
    second.commit(offsets=[TopicPartition(moved.topic, moved.partition, 50)], asynchronous=False)
    first.pause(first.assignment())
    second.close()

    def has_both() -> bool:
        first.consume(1, 0.1)
        return len(first.assignment()) == 2

    # 50 records wait behind what was committed; one of them may be delivered by the poll that brings the partition.
    wait_for(has_both, 25, "both partitions")
    position = first.position([moved])[0].offset
    assert position < 0 or 50 < position <= 51, position
    kept = next(entry for entry in first.assignment() if entry.partition != moved.partition)
    assert first.position([kept])[0].offset == 100
