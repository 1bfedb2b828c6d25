"""Handing records to a producer: every one, in order, whatever the state of its queue.

`produce` is the call that keeps headers and timestamps; `produce_batch` drops both without a word. What makes it fast
is that the columns of a batch are read by `map` over C functions: no Python code runs for each field of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import TypeVar

from confluent_kafka import Message, Producer

from workers.transactional.errors import kafka_call
from workers.transforms import Output

_ANY_PARTITION = -1
_FULL_QUEUE_WAIT_S = 0.05
_NOW = 0
_second = itemgetter(1)

Record = TypeVar("Record", Message, Output)


def write_messages(producer: Producer, messages: Sequence[Message], *, topic: str, keep_partition: bool) -> None:
    """Enqueue `messages` as they are for `topic`; with `keep_partition` each for the partition number it came from.

    Raises:
        LoopError: as `kafka_call` sorts it; what was enqueued before belongs to the transaction all the same.
    """

    def produce(batch: Sequence[Message]) -> Iterator[None]:
        return map(
            producer.produce,
            repeat(topic),
            map(Message.value, batch),
            map(Message.key, batch),
            map(Message.partition, batch) if keep_partition else repeat(_ANY_PARTITION),
            repeat(None),
            repeat(None),
            map(_second, map(Message.timestamp, batch)),
            map(Message.headers, batch),
        )

    _enqueue(producer, messages, produce)


def write_outputs(producer: Producer, outputs: Sequence[Output], *, topic: str) -> None:
    """Enqueue `outputs`, those without a topic for `topic`, partitions by key. Raises as `write_messages`."""

    def produce(batch: Sequence[Output]) -> Iterator[None]:
        values, keys, headers, timestamps, topics = zip(*batch, strict=True)
        return map(
            producer.produce,
            (named or topic for named in topics),
            values,
            keys,
            repeat(_ANY_PARTITION),
            repeat(None),
            repeat(None),
            (_NOW if timestamp is None else timestamp for timestamp in timestamps),
            headers,
        )

    _enqueue(producer, outputs, produce)


def _enqueue(
    producer: Producer, records: Sequence[Record], produce: Callable[[Sequence[Record]], Iterator[None]]
) -> None:
    """Drain `produce(records)`; when the queue is full, wait until there is room and go on where it stopped.

    The wait ends: a record that cannot be delivered leaves the queue after `message.timeout.ms` and fails the flush.
    """
    done = 0
    with kafka_call("hand records to the producer"):
        while done < len(records):
            is_full = False
            try:
                for _ in produce(records[done:] if done else records):
                    done += 1
            except BufferError:
                is_full = True
            if is_full:
                # Not while the BufferError is being handled: see `error_of`.
                producer.poll(_FULL_QUEUE_WAIT_S)
