"""A task's report of its producer equals the transaction journal's record of its id."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, Message, Producer

from app.core.fencing.id_loss import IdLoss, IdLossVerdict, judge_id_loss
from app.core.journals.transaction_state import TransactionState
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transaction_journal import read_transaction_journal
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.claim.journal import IdJournal
from workers.loop.client_config import reader_config, transactional_producer_config
from workers.loop.control import ProducerIdentity
from workers.loop.errors import FatalError, RetriableError
from workers.loop.producing import transactional_producer
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.slices import CallPatience

PATIENCE = CallPatience(20.0)


class WithFailedOutput(NamedTuple):
    pipeline: TestPipeline
    producer: TransactionalProducer
    first: ProducerIdentity


def test_a_task_reports_the_producer_id_and_epoch_that_the_coordinator_gave_it(make_pipeline: MakePipeline) -> None:
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
    """They come twice a second, with or without records, and stay in memory until the next poll."""
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


def test_topic_that_may_not_be_looked_up_is_not_reported_as_missing(
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


@pytest.fixture
def with_failed_output(kafka: KafkaCluster, make_pipeline: MakePipeline) -> Generator[WithFailedOutput]:
    """A producer in whose transaction an output was not delivered in time: its abort asks for a new epoch (KIP-360)."""
    pipeline = make_pipeline(partitions=1)
    config = transactional_producer_config(pipeline.specification())
    producer = TransactionalProducer({**config, "message.timeout.ms": 1_000})
    producer.init(20)
    first = producer.identity(timeout_s=10)
    assert first is not None
    producer.begin()
    producer.live.produce(pipeline.sink, b"delivered")
    producer.flush(patience=PATIENCE)
    failed: list[KafkaError] = []

    def told(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    broker = kafka.broker(1)
    broker.pause()
    try:
        producer.live.produce(pipeline.sink, b"late", on_delivery=told)
        wait_for(lambda: producer.live.poll(0.1) >= 0 and bool(failed), 20, "an output that is not delivered in time")
    finally:
        broker.resume()
    yield WithFailedOutput(pipeline, producer, first)
    producer.discard()


def test_epoch_that_an_abort_has_taken_is_known_before_anything_else_happens(
    with_failed_output: WithFailedOutput,
) -> None:
    _pipeline, producer, first = with_failed_output
    producer.abort(patience=PATIENCE)
    assert producer.identity(timeout_s=0) == first
    assert producer.may_have_bumped
    now = producer.identity(timeout_s=10)
    assert now == ProducerIdentity(first.producer_id, first.epoch + 1, first.transactional_id)
    assert not producer.may_have_bumped


def test_epoch_that_an_unanswered_abort_takes_is_our_own(
    kafka: KafkaCluster, with_failed_output: WithFailedOutput
) -> None:
    """The client continues when the call is abandoned; the journal shows an init like another producer's."""
    pipeline, producer, first = with_failed_output
    broker = kafka.broker(1)
    # Else it may be answered while the one that gives it no time is not running itself.
    broker.pause()
    try:
        with pytest.raises(RetriableError):
            producer.abort(patience=CallPatience(0))
    finally:
        broker.resume()
    journal = IdJournal(pipeline.transactional_id(0), reader_config(pipeline.specification()))

    def verdict(*, may_have_bumped: bool) -> IdLossVerdict:
        assert journal.read_on(20)
        return judge_id_loss(
            journal.states, producer_id=first.producer_id, producer_epoch=first.epoch, may_have_bumped=may_have_bumped
        )

    wait_for(
        lambda: verdict(may_have_bumped=False).loss is IdLoss.TAKEN_OVER,
        20,
        lambda: f"an init in the journal: {journal.states}",
    )
    assert producer.may_have_bumped
    assert verdict(may_have_bumped=True).loss is IdLoss.OWN_EPOCH
    journal.close()
