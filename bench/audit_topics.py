"""A source and a sink with millions of ids, and what was planted between them."""

from __future__ import annotations

from confluent_kafka import Producer

from app.products.audits.specification import AuditSpecification, Everything, JsonField
from bench.identity_loop import PARTITIONS, create_topics

SOURCE, SINK = "audited-in", "audited-out"
LOST, DOUBLED = 3, 2
"""The last LOST ids are missing in the sink, the first DOUBLED ones are there twice."""
_BATCH = 10_000
_FILLING = b"x" * 60


def fill(bootstrap_servers: str, ids: int) -> None:
    """JSON values of about 100 bytes, evenly over the partitions, in transactions as the loop writes them."""
    create_topics(bootstrap_servers, SOURCE, SINK)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": "bench-audit",
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.init_transactions(60)
    for start in range(0, ids, _BATCH):
        numbers = range(start, min(start + _BATCH, ids))
        values = [b'{"id":"order-%012d","filling":"%s"}' % (number, _FILLING) for number in numbers]
        kept = values[: max(0, ids - LOST - start)]
        producer.begin_transaction()
        for topic, batch in ((SOURCE, values), (SINK, [*kept, *(values[:DOUBLED] if start == 0 else [])])):
            messages = [{"value": value} for value in batch]
            assert producer.produce_batch(topic, messages, partition=start // _BATCH % PARTITIONS) == len(batch)
        assert producer.flush(120) == 0
        producer.commit_transaction(60)


def specification(ids: int) -> AuditSpecification:
    return AuditSpecification(
        audit_id=f"bench-{ids}",
        pipeline="bench",
        revision=1,
        source_topics=(SOURCE,),
        group_id=None,
        sink_topic=SINK,
        sink_topics=(SINK,),
        id=JsonField(path="id"),
        window=Everything(),
    )
