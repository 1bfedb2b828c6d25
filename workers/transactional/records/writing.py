"""Handing records to a producer: every one, in order, whatever the state of its queue.

`produce` is the call that keeps headers and timestamps; `produce_batch` drops both without a word. What makes it fast
is that no Python code runs for each field of a record: the columns of a batch are read by `map` over C functions, and
`zip` and `starmap` hand them over in one tuple that is used again for each record. Timestamps and headers are read
before that: read in between, they cost about a fifth of the whole call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat, starmap
from operator import itemgetter, length_hint
from typing import Any

from confluent_kafka import Message, Producer

from workers.transactional.errors import kafka_call
from workers.transforms import Output

_ANY_PARTITION = -1
_FULL_QUEUE_WAIT_S = 0.05
_NOW = 0
_NONE = repeat(None)
_second = itemgetter(1)
_Columns = tuple[*tuple[Iterable[Any], ...], Sequence[Any]]
"""What `produce` takes, from a record on, a column for each argument."""


def write_messages(producer: Producer, messages: Sequence[Message], *, topic: str, keep_partition: bool) -> None:
    """Enqueue `messages` as they are for `topic`; with `keep_partition` each for the partition number it came from.

    Raises:
        LoopError: as `kafka_call` sorts it; what was enqueued before belongs to the transaction all the same.
    """
    timestamps = list(map(_second, map(Message.timestamp, messages)))
    headers = list(map(Message.headers, messages))

    def columns(begin: int) -> _Columns:
        batch = messages[begin:] if begin else messages
        return (
            repeat(topic),
            map(Message.value, batch),
            map(Message.key, batch),
            map(Message.partition, batch) if keep_partition else repeat(_ANY_PARTITION),
            _NONE,
            _NONE,
            timestamps[begin:] if begin else timestamps,
            headers[begin:] if begin else headers,
        )

    _enqueue(producer, len(messages), columns)


def write_outputs(producer: Producer, outputs: Sequence[Output], *, topic: str) -> None:
    """Enqueue `outputs`, those without a topic for `topic`, partitions by key. Raises as `write_messages`."""
    if not outputs:
        return
    values, keys, headers, timestamps, topics = zip(*outputs, strict=True)
    named = [one or topic for one in topics] if any(topics) else None
    times = [_NOW if timestamp is None else timestamp for timestamp in timestamps]

    def columns(begin: int) -> _Columns:
        return (
            repeat(topic) if named is None else named[begin:],
            values[begin:],
            keys[begin:],
            repeat(_ANY_PARTITION),
            _NONE,
            _NONE,
            times[begin:],
            headers[begin:],
        )

    _enqueue(producer, len(outputs), columns)


def _enqueue(producer: Producer, count: int, columns: Callable[[int], _Columns]) -> None:
    """Produce so many records, given as the columns of `produce` from one of them on.

    When the queue is full, wait until there is room and go on with the record that it did not take. The wait ends: a
    record that cannot be delivered leaves the queue after `message.timeout.ms` and fails the flush.
    """
    done: int = 0
    with kafka_call("hand records to the producer"):
        while True:
            *others, last = columns(done)
            unread = iter(last)
            try:
                deque(starmap(producer.produce, zip(*others, unread, strict=False)), maxlen=0)
                return
            except BufferError:
                # One has been read that was not taken.
                done = count - length_hint(unread) - 1
            # Not while the BufferError is being handled: see `error_of`.
            producer.poll(_FULL_QUEUE_WAIT_S)
