"""Repeat requests as a client does after a lost answer, which confluent-kafka cannot be made to do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kafka.protocol.producer.produce import ProduceRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.producer.transaction import EndTxnRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.record.default_records import DefaultRecordBatchBuilder  # pyright: ignore[reportMissingTypeStubs]

from app.core.clusters.partition import Partition
from app.core.journals.record_batch import RecordBatch
from app.edges.kafka.raw_client import error_of, is_transient
from app.edges.kafka.transactions.client import TransactionClient
from app.kit.errors import UnavailableError

_Produce: Any = ProduceRequest
_EndTxn: Any = EndTxnRequest
_Builder: Any = DefaultRecordBatchBuilder
# The versions of clients before KIP-890: their answers have an error code and no next epoch.
_PRODUCE_VERSION = 8
_END_TXN_VERSION = 3
_TIMEOUT_MS = 10_000
_DUPLICATE_SEQUENCE_NUMBER = 46


class RepeatingClient(TransactionClient):
    """A connection to the cluster; a context manager. Its methods block."""

    def last_batch(self, at: Partition) -> RecordBatch:
        """Return the newest data batch of the partition's log, also of an open transaction."""
        position, found = 0, None
        while True:
            self.raise_if_late(f"a batch of {at}")
            fetched = self.fetch({at: position}).get(at)
            if fetched is None:
                continue
            for batch in fetched.batches:
                if isinstance(batch, RecordBatch) and not batch.is_control:
                    found = batch
            position = fetched.next_offset
            if found is not None and position >= fetched.high_watermark:
                return found

    def produce_again(
        self, at: Partition, batch: RecordBatch, values: Sequence[bytes], *, transactional_id: str | None
    ) -> int:
        """Send the values with the batch's producer id, epoch and sequence. Return the error code, 0 for none."""
        request = produce_request(
            at,
            values,
            transactional_id=transactional_id,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        (part,) = self.send(request, self.leaders([at])[at]).responses[0].partition_responses
        # The broker's answer for a known batch whose offset it has forgotten.
        return 0 if part.error_code == _DUPLICATE_SEQUENCE_NUMBER else int(part.error_code)

    def end_again(self, transactional_id: str, batch: RecordBatch, *, is_commit: bool) -> str:
        """Ask to end the transaction of the batch's producer id and epoch. Return the error, empty for success."""
        request = _EndTxn(
            transactional_id=transactional_id,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            committed=is_commit,
            min_version=_END_TXN_VERSION,
            max_version=_END_TXN_VERSION,
        )
        while True:
            coordinator = self._transaction_coordinators([transactional_id])[transactional_id]
            if isinstance(coordinator, Exception):
                error: Exception = coordinator
            else:
                code = int(self.send(request, coordinator).error_code)
                if code == 0:
                    return ""
                error = error_of(code, None)
            # The markers of the first request may not be written yet (CONCURRENT_TRANSACTIONS).
            if not is_transient(error):
                return str(error)
            if self._attempt.is_over:
                raise UnavailableError(f"the coordinator of {transactional_id} does not answer: {error}")
            self._pause()


def produce_request(
    at: Partition,
    values: Sequence[bytes],
    *,
    transactional_id: str | None,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> Any:
    """Build a batch of these values. It adds no partition to a transaction by itself, unlike clients of KIP-890."""
    builder = _Builder(
        magic=2,
        compression_type=0,
        is_transactional=transactional_id is not None,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=2**20,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=time.time_ns() // 1_000_000, key=None, value=value, headers=[])
    topic = _Produce.TopicProduceData
    part = topic.PartitionProduceData(index=at.partition, records=bytes(builder.build()))
    return _Produce(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[topic(name=at.topic, partition_data=[part])],
        min_version=_PRODUCE_VERSION,
        max_version=_PRODUCE_VERSION,
    )
