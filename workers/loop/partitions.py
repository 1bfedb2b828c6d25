"""Partitions between the client and the loop."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Message, TopicPartition

from app.core.clusters.partition import Partition

Place = tuple[str, int]
"""Topic and number of a `Partition`, as a plain tuple: each record makes one, and a tuple takes a fifth of the time."""


def place_of(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0


def partition_of(message: Message) -> Partition:
    return Partition(*place_of(message))


def partitions_of(entries: Iterable[TopicPartition]) -> list[Partition]:
    return [Partition(entry.topic, entry.partition) for entry in entries]


def entries_of(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, number in partitions]
