"""A hanging transaction as the search finds it, without a broker."""

from __future__ import annotations

from app.core.hanging.hanging_transaction import HangingKey, HangingTransaction
from tests.support.observing import NOW_MS


def hanging_transaction(
    *,
    kafka_cluster_id: str = "kafka-1",
    topic: str = "orders",
    partition: int = 0,
    producer_id: int = 4015,
    start_offset: int = 10,
    seen_ms: int = NOW_MS,
) -> HangingTransaction:
    return HangingTransaction(
        key=HangingKey(
            kafka_cluster_id=kafka_cluster_id,
            topic=topic,
            partition=partition,
            producer_id=producer_id,
            producer_epoch=2,
            start_offset=start_offset,
        ),
        coordinator_epoch=3,
        last_written_ms=NOW_MS,
        transactional_id=None,
        is_corroborated=True,
        why=f"producer {producer_id} belongs to no transactional id that any coordinator knows",
        found_ms=seen_ms,
        seen_ms=seen_ms,
        high_watermark=14,
    )
