"""A hanging transaction, as brokers before KIP-890 get them: records that come after their transaction has ended."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from kafka.protocol.metadata.find_coordinator import (  # pyright: ignore[reportMissingTypeStubs]
    FindCoordinatorRequest,
)
from kafka.protocol.producer.transaction import TxnOffsetCommitRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.blocked.facts import KnownTransaction
from app.core.clusters.partition import Partition
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.client import TransactionClient
from app.products.conformance.checking.repeating import produce_request
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.waiting import wait_for

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""The setting of a broker that takes such records, as all did before 3.6."""
_DEADLINE_S = 20.0
_Find: Any = FindCoordinatorRequest
_CommitOffsets: Any = TxnOffsetCommitRequest


def make_hanging(
    bootstrap_servers: str, at: Partition, transactional_id: str, *, records: int = 3, commit: bool = False
) -> None:
    """End a transaction of one record, then send more at its producer id and epoch, as a delayed request would."""
    with _after_end(bootstrap_servers, at, transactional_id, commit=commit) as (client, known):
        late = produce_request(
            at,
            [b"late"] * records,
            transactional_id=known.transactional_id,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            base_sequence=1,
        )
        answer = client.send(late, client.leaders([at])[at])
    (part,) = answer.responses[0].partition_responses
    assert part.error_code == 0, part


def make_offset_hang(bootstrap_servers: str, at: Partition, transactional_id: str, *, group: str, offset: int) -> None:
    """The same with an offset of a group for `at`: it stays pending, and no new owner of `at` may begin."""
    with _after_end(bootstrap_servers, at, transactional_id, commit=False) as (client, known):
        answer = client.send(_late_offset(at, known, group, offset), _coordinator(client, group))
    (part,) = answer.topics[0].partitions
    assert part.error_code == 0, part


@contextmanager
def _after_end(
    bootstrap_servers: str, at: Partition, transactional_id: str, *, commit: bool
) -> Generator[tuple[TransactionClient, KnownTransaction]]:
    """The id as its coordinator has it once its transaction of one record has ended."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 0, **QUIET}
    )
    initialise(producer)
    producer.begin_transaction()
    producer.produce(at.topic, b"committed" if commit else b"aborted", partition=at.partition)
    assert producer.flush(_DEADLINE_S) == 0
    (producer.commit_transaction if commit else producer.abort_transaction)(_DEADLINE_S)
    with TransactionClient(
        {"bootstrap.servers": bootstrap_servers}, ConnectionAttempt(bootstrap_servers, _DEADLINE_S)
    ) as client:
        # The answer comes before the marker, which would end the late records, too.
        known = wait_for(lambda: _ended(client, transactional_id), _DEADLINE_S, f"the end of {transactional_id}")
        assert known is not None
        yield client, known


def _ended(client: TransactionClient, transactional_id: str) -> KnownTransaction | None:
    known = client.describe_transactions([transactional_id])[transactional_id]
    assert isinstance(known, KnownTransaction), known
    return known if known.state.startswith("Complete") else None


def _late_offset(at: Partition, known: KnownTransaction, group: str, offset: int) -> Any:
    topic = _CommitOffsets.TxnOffsetCommitRequestTopic
    part = topic.TxnOffsetCommitRequestPartition(
        partition_index=at.partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    # Version 3 is of a client without KIP-890: its coordinator adds no partition to a transaction by itself.
    return _CommitOffsets(
        transactional_id=known.transactional_id,
        group_id=group,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name=at.topic, partitions=[part])],
        min_version=3,
        max_version=3,
    )


def _coordinator(client: TransactionClient, group: str) -> int:
    answer = client.send(_Find(key_type=0, key=group, coordinator_keys=[group], min_version=4, max_version=4), 1)
    return int(answer.coordinators[0].node_id)
