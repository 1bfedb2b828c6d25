"""What a task says of its producer is what the transaction journal says of its id."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from app.domain.journals.transaction_state import TransactionState
from app.kafka.transaction_journal import read_transaction_journal
from tests.exactly_once.conftest import MakePipeline
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.transactional.client_config import transactional_producer_config
from workers.transactional.errors import FatalError
from workers.transactional.producing import transactional_producer
from workers.transactional.producing.transactional_producer import TransactionalProducer


def test_a_task_tells_the_producer_id_and_epoch_that_the_coordinator_gave_it(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    for _ in range(2):
        specification = pipeline.specification()
        with running(specification) as task:
            task.wait_until(lambda seen: seen.producer_id is not None, "the producer's id and epoch")
            said = task.control.last
            assert specification.transactional_id is not None
            states = [
                record.state
                for record in read_transaction_journal(
                    {"bootstrap.servers": pipeline.bootstrap_servers}, prefixes=(specification.transactional_id,)
                )
                if isinstance(record.state, TransactionState)
            ]
            assert (said.producer_id, said.producer_epoch) == (states[-1].producer_id, states[-1].producer_epoch)
            task.drain()


def test_an_idle_producers_statistics_are_taken_out_of_it(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come twice a second, whether anything is written or not, and stay in memory until somebody polls."""
    polled: list[int] = []

    class Counted(Producer):
        def poll(self, timeout: float = -1) -> int:
            served = super().poll(timeout)
            polled.append(served)
            return served

    monkeypatch.setattr(transactional_producer, "Producer", Counted)
    pipeline = make_pipeline(partitions=1)
    with running(pipeline.specification()) as task:
        task.wait_until(lambda seen: seen.producer_id is not None, "the producer's id and epoch")
        count = sum(polled)
        wait_for(lambda: sum(polled) >= count + 3, 10, lambda: f"three more statistics than {count}: {sum(polled)}")
        task.drain()


def test_topic_that_may_not_be_looked_up_is_not_said_to_be_missing(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(partitions=1)

    class Forbidden(Producer):
        def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions={})})

    monkeypatch.setattr(transactional_producer, "Producer", Forbidden)
    producer = TransactionalProducer(transactional_producer_config(pipeline.specification()))
    with pytest.raises(FatalError, match=f"could not look up {pipeline.sink}: TOPIC_AUTHORIZATION_FAILED"):
        producer.partition_count(pipeline.sink, 5)
    producer.discard()
