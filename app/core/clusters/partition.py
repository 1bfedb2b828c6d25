"""A partition of a topic. Only the edges of Kafka use a client library's own `TopicPartition`."""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    """Topic and number, written as `orders-0`. Where each record needs one, a plain tuple stands for it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
