"""A consumer of committed records that notes the times."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench.latency.load import STAMP
from bench.peers.work import PARTITIONS

_ENDS_AFTER_SILENCE_S = 0.5
_MISSED_AFTER_S = 30.0


def read(bootstrap_servers: str, topic: str, into: Path, told: Connection) -> None:
    """Note the number, the due time and the reading time of every record that is committed from now on.

    Says so when it is ready. Then it is told how many there will be: it ends after half a second of silence when it has
    as many, or when nothing has come for 30 s, and writes an array of (number, due, read) into a file.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench-latency-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 65_536,
        }
    )
    asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(entry, 30)[1] for entry in asked]
    consumer.assign([TopicPartition(topic, number, end) for number, end in enumerate(ends)])
    # By now it fetches: an assignment to an end takes a round trip.
    consumer.poll(0.5)
    told.send(None)
    found: list[tuple[int, int, int]] = []
    wanted: int | None = None
    last_at = time.monotonic()
    try:
        while True:
            if wanted is None and told.poll():
                wanted, last_at = told.recv(), time.monotonic()
            messages = consumer.consume(1, 0.1)
            if not messages:
                silent_s = time.monotonic() - last_at
                has_all = wanted is not None and len(found) >= wanted and silent_s >= _ENDS_AFTER_SILENCE_S
                if has_all or (wanted is not None and silent_s >= _MISSED_AFTER_S):
                    break
                continue
            # With the one that has woken us come those that are there already; a longer wait would be ours.
            messages += consumer.consume(10_000, 0)
            read_ns, last_at = time.time_ns(), time.monotonic()
            for message in messages:
                assert message.error() is None, message.error()
                due_ns, number = STAMP.unpack_from(message.value() or b"")
                found.append((number, due_ns, read_ns))
    finally:
        consumer.close()
    np.save(into, np.array(found, np.int64).reshape(-1, 3))
    told.send(len(found))
