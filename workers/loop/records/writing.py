"""Handing records to a producer: every one, in order, with a full queue too.

`produce` is the call that keeps headers and timestamps; `produce_batch` drops both without an error. It is fast since
no Python code runs for each field: the columns of a batch are read by `map` over C functions. `zip` and
`starmap` pass them on in one tuple that is used again for each record. Timestamps and headers are read before that:
read in between, they cost about a fifth of the whole call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat, starmap
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from workers.loop.errors import AbortableError, LoopError, RefusedError, kafka_call
from workers.transforms import Output
from workers.transforms.carrying import as_they_are

_ANY_PARTITION = -1
_FULL_QUEUE_WAIT_S = 0.05
_NOW = 0
_NONE = repeat(None)
_DOING = "hand records to the producer"
_TopicOf = Callable[[int], str]
Offer = Callable[[int], "tuple[int, LoopError | None]"]
"""Enqueues from a record on. Returns how many of all are enqueued then, and why no more; None: the queue is full."""
_Columns = tuple[*tuple[Iterable[Any], ...], Sequence[Any]]
"""The arguments of `produce` from a record on, a column for each argument."""


class UnfitError(Exception):
    """Some of a batch of messages cannot be written as they are; with the errors, by index."""

    def __init__(self, found: Mapping[int, Exception]) -> None:
        super().__init__(f"{len(found)} records cannot be written as they are")
        self.found = found


def write_messages(
    producer: Producer, messages: Sequence[Message], *, topic: str, keep_partition: bool, room_within_s: float
) -> None:
    """Enqueue `messages` as they are for `topic`; with `keep_partition` each for the partition number it came from.

    Args:
        room_within_s: how long to wait in all for room in the queue.

    Raises:
        UnfitError: the client cannot carry some of them. None was enqueued.
        RefusedError: the client does not take a record of this size.
        LoopError: as `kafka_call` sorts it. Records enqueued before it still belong to the transaction.
    """
    timestamps, headers, unfit = as_they_are(messages)
    if unfit:
        raise UnfitError(unfit)

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

    _enqueue(producer, len(messages), columns, topics=lambda _: topic, room_within_s=room_within_s)


def write_outputs(producer: Producer, outputs: Sequence[Output], *, topic: str, room_within_s: float) -> None:
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

    _enqueue(
        producer,
        len(outputs),
        columns,
        topics=lambda index: topic if named is None else named[index],
        room_within_s=room_within_s,
    )


def _enqueue(
    producer: Producer, count: int, columns: Callable[[int], _Columns], *, topics: _TopicOf, room_within_s: float
) -> None:
    """Produce so many records, given as the columns of `produce` from one of them on; the rest as `enqueue`."""

    def offer(done: int) -> tuple[int, LoopError | None]:
        *others, last = columns(done)
        unread = iter(last)
        error: LoopError | None = None
        try:
            with kafka_call(_DOING):
                deque(starmap(producer.produce, zip(*others, unread, strict=False)), maxlen=0)
            return count, None
        except BufferError:
            pass
        except RefusedError as refused:
            error = refused
        # One has been read that was not taken.
        return count - length_hint(unread) - 1, error

    enqueue(producer, count, offer, topics=topics, room_within_s=room_within_s)


def enqueue(producer: Producer, count: int, offer: Offer, *, topics: _TopicOf, room_within_s: float) -> None:
    """Have `offer` enqueue so many records.

    When the queue is full, wait until there is room and continue with the record that it did not take. The wait ends
    with `room_within_s`, and at once where even the empty queue has no room for a record. Raises as `write_messages`.
    """
    done = 0
    deadline = time.monotonic() + room_within_s
    while True:
        is_empty = len(producer) == 0
        before = done
        done, error = offer(done)
        # Not while an error is being handled: see `error_of`.
        if isinstance(error, RefusedError):
            raise _refusal(topics(done), "message.max.bytes", code=error.code)
        if error is not None:
            raise error
        if done >= count:
            return
        if is_empty and done == before:
            raise _refusal(topics(done), "queue.buffering.max.kbytes", code=KafkaError.MSG_SIZE_TOO_LARGE)
        if time.monotonic() >= deadline:
            raise AbortableError(
                f"the producer's queue had no room for the outputs within {room_within_s:.1f} s",
                code=KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001 - public, in spite of its name
            )
        producer.poll(_FULL_QUEUE_WAIT_S)


def _refusal(topic: str, setting: str, *, code: int | None) -> RefusedError:
    return RefusedError(f"an output for {topic} is larger than {setting} of the producer", code=code, setting=setting)
