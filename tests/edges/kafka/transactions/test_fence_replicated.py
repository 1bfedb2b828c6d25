"""A fence on a cluster whose coordinators replicate their state."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from app.core.blocked.facts import Refused
from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import TOPIC, TransactionState
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transaction_journal import read_transaction_journal
from app.edges.kafka.transactions.brokers import KafkaTransactions
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow
_FROZEN_S = 1.0


async def test_a_fence_waits_for_the_replicas_and_is_written_down_once(kafka_cluster3: KafkaCluster) -> None:
    """A coordinator that does not wait for them refuses, although its log has the new epoch, and is asked again."""
    connection = {"bootstrap.servers": kafka_cluster3.bootstrap_servers}
    name = unique_name("fenced")
    initialise(Producer({**connection, **QUIET, "transactional.id": name}))
    metadata = AdminClient({**connection, **QUIET}).list_topics(TOPIC, timeout=20)
    leader = metadata.topics[TOPIC].partitions[transaction_log_partition(name)].leader
    follower = kafka_cluster3.broker(next(one for one in metadata.brokers if one != leader))
    awake = threading.Timer(_FROZEN_S, follower.resume)
    follower.pause()
    try:
        awake.start()
        fenced = await KafkaTransactions(environment={}, secrets_dir=None).fence(connection, name)
    finally:
        awake.join()
    assert not isinstance(fenced, Refused)
    written = [
        record.state.producer_epoch
        for record in read_transaction_journal(connection, prefixes=(name,))
        if isinstance(record.state, TransactionState)
    ]
    assert written == [0, fenced.producer_epoch]
