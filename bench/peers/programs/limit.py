"""The limit: one Python process, `consume()` then `produce_batch(partition=)`, idempotent; no transactions, no offsets.

python bench/peers/programs/limit.py BOOTSTRAP SOURCE SINK COMPRESSION. It reads from the beginning, checks
nothing, and runs until it is killed. Batches, queues and fetching are set as the loop sets them.
"""

import gc
import sys

from confluent_kafka import Consumer, Producer, TopicPartition


def main() -> None:
    bootstrap_servers, source, sink, compression = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "limit",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
            "queued.max.messages.kbytes": 65_536,
            "queued.min.messages": 50_000,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 65_536,
            "compression.type": compression,
        }
    )
    partitions = consumer.list_topics(source, 30).topics[source].partitions
    consumer.assign([TopicPartition(source, number, 0) for number in partitions])
    gc.disable()
    while True:
        messages = consumer.consume(2_000, 0.1)
        begin = 0
        for end in range(1, len(messages) + 1):
            if end == len(messages) or messages[end].partition() != messages[begin].partition():
                left = [{"value": message.value()} for message in messages[begin:end]]
                while left:
                    producer.produce_batch(sink, left, partition=messages[begin].partition() or 0)
                    left = [{"value": one["value"]} for one in left if "_error" in one]
                    if left:
                        producer.poll(0.01)
                begin = end
        producer.poll(0)


if __name__ == "__main__":
    main()
