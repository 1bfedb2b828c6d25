"""The questions about transactions: Kafka's names for them, their permissions, and the form of their errors."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.core.blocked.facts import KnownTransaction, OpenTransaction, Refused
from app.core.clusters.partition import Partition
from app.edges.kafka.raw_client import errors, is_transient


class Question(NamedTuple):
    """The request's name in Kafka, and the permission that it requires."""

    name: str
    permission: str

    def refused(self, of: str, error: Exception) -> Refused:
        is_right = isinstance(error, errors.AuthorizationError)
        return Refused(
            f"{self.name} of {of}",
            _kafkas_word(error),
            self.permission.format(of=of) if is_right else None,
            # CONCURRENT_TRANSACTIONS is no refusal either: the coordinator aborts before it answers InitProducerId.
            is_open=is_transient(error) or not isinstance(error, errors.BrokerResponseError),
        )


METADATA = Question("Metadata", "DESCRIBE on the topic {of}")
FETCH = Question("Fetch", "READ on the topic of {of}")
LIST_OFFSETS = Question("ListOffsets", "DESCRIBE on the topic of {of}")
DESCRIBE_LOG_DIRS = Question("DescribeLogDirs", "DESCRIBE on the cluster")
DESCRIBE_PRODUCERS = Question("DescribeProducers", "READ on the topic of {of}")
LIST_TRANSACTIONS = Question("ListTransactions", "DESCRIBE on transactional ids")
DESCRIBE_TRANSACTIONS = Question("DescribeTransactions", "DESCRIBE on the transactional id {of}")
INIT_PRODUCER_ID = Question("InitProducerId", "WRITE on the transactional id {of}")
END_TRANSACTION = Question("EndTxn", "WRITE on the transactional id {of}")
DESCRIBE_GROUP = Question("DescribeGroups", "DESCRIBE on the group {of}")
LEAVE_GROUP = Question("LeaveGroup", "READ on the group {of}")
WRITE_MARKERS = Question("WriteTxnMarkers", "ALTER on the cluster (CLUSTER_ACTION before Kafka 3.8)")


def no_such_partition(question: Question, topic: str, partition: int, *, partitions: int) -> Refused:
    """Return the brokers' error, with the existing partitions."""
    only = f"UNKNOWN_TOPIC_OR_PARTITION, {topic} has partitions 0 to {partitions - 1} only"
    return Refused(f"{question.name} of {topic}-{partition}", only)


def open_transaction(row: Any) -> OpenTransaction:
    return OpenTransaction(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        coordinator_epoch=row.coordinator_epoch,
        last_sequence=row.last_sequence,
        last_ms=row.last_timestamp,
        start_offset=row.current_txn_start_offset,
    )


def known_transaction(row: Any, broker: int) -> KnownTransaction:
    return KnownTransaction(
        transactional_id=row.transactional_id,
        coordinator_id=broker,
        state=row.transaction_state,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout_ms,
        start_ms=row.transaction_start_time_ms,
        partitions=frozenset(Partition(topic.topic, number) for topic in row.topics for number in topic.partitions),
    )


def _kafkas_word(error: Exception) -> str:
    """Return `TOPIC_AUTHORIZATION_FAILED`; the library's own text if no broker answered."""
    word = getattr(error, "message", None)
    return str(word) if isinstance(error, errors.BrokerResponseError) and word else str(error)
