"""An open-loop load: each record is due at a time that was set before, however the system keeps up.

The time that it was due is in its value, so that a sender that is held up does not hide what waited for it.
"""

from __future__ import annotations

import struct
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
from confluent_kafka import Producer

from bench.peers.work import PARTITIONS

STAMP = struct.Struct(">qq")
"""When the record was due, nanoseconds since 1970 by the machine's clock, and its number."""
_PADDING = b"x" * (100 - STAMP.size)
_FINEST_S = 0.001


class Sent(NamedTuple):
    """late_ms_p99, late_ms_max: from when a record was due to when the producer had it; it is in the latency."""

    records: int
    late_ms_p99: float
    late_ms_max: float


def send(bootstrap_servers: str, topic: str, rate: int, seconds: float, told: Connection) -> None:
    """So many records a second, evenly in time and over the partitions, then `Sent` into `told`."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0 if rate <= 1_000 else 1})
    # The first record waits for the topic's leaders otherwise.
    producer.list_topics(topic, 30)
    count = int(rate * seconds)
    late_ns = np.zeros(count, np.int64)
    step_ns = 1_000_000_000 // rate
    from_ns = time.time_ns() + 200_000_000
    number = 0
    while number < count:
        due_ns = from_ns + number * step_ns
        now_ns = time.time_ns()
        if due_ns > now_ns:
            producer.poll(0)
            # At high rates some are sent together, none before it is due.
            wait_s = (due_ns - now_ns) / 1e9
            time.sleep(wait_s if rate <= 1_000 else max(wait_s, _FINEST_S))
            continue
        _hand_over(producer, topic, STAMP.pack(due_ns, number) + _PADDING, number % PARTITIONS)
        late_ns[number] = time.time_ns() - due_ns
        number += 1
    assert producer.flush(60) == 0
    late_ms = np.sort(late_ns) / 1e6
    told.send(Sent(count, round(float(late_ms[int(count * 0.99)]), 2), round(float(late_ms[-1]), 2)))


def _hand_over(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.001)
        else:
            return
