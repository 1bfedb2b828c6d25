"""Rule 5 where `__transaction_state` may not be read (managed Kafka): a broker that refuses it."""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator

import pytest
from confluent_kafka.admin import AclOperation

from app.core.journals import transaction_state
from app.core.wire.heartbeat import EventKind
from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.test_asking_before_init import lose_at_commit
from tests.support.permissions import GUARDED_BROKER_SETTINGS, deny
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from workers.loop.client_config import transactional_producer_config
from workers.loop.control import TaskEnd
from workers.loop.producing.transactional_producer import TransactionalProducer


@pytest.fixture(scope="module")
def pipeline() -> Generator[TestPipeline]:
    """On a broker whose journal no client may read."""
    with KafkaCluster.start(overrides=GUARDED_BROKER_SETTINGS) as cluster:
        deny(cluster.bootstrap_servers, transaction_state.TOPIC, AclOperation.READ)
        yield TestPipeline.create(cluster.bootstrap_servers, partitions=1)


@pytest.mark.slow
def test_unfenced_attempt_continues_and_a_fenced_one_ends_as_superseded(
    pipeline: TestPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        with monkeypatch.context() as patch:
            lose_at_commit(patch, lambda: None)
            pipeline.feed(10)
            task.wait_for_event(EventKind.OUTCOME_UNKNOWN)
        task.wait_for_records(20)
        assert task.control.asked >= 1
        taker = TransactionalProducer(transactional_producer_config(pipeline.specification(attempt=1)))
        taker.init(20)
        pipeline.feed(10)
        result = task.join()
        taker.discard()
    assert result.end is TaskEnd.SUPERSEDED
    assert "the journal cannot be read" in result.message
    assert "TOPIC_AUTHORIZATION_FAILED" in result.message
