"""Every record reaches the producer once, in order and whole, however often its queue is full."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Producer

from tests.support.messages import a_message
from tests.support.quiet import QUIET
from workers.loop.errors import AbortableError, RefusedError
from workers.loop.records.writing import write_messages, write_outputs
from workers.transforms import Output

_COUNT = 20
_WAITS_S = 30.0


class _Refusing:
    """Stands for a producer whose queue has room for so many records, and is empty after each poll."""

    def __init__(self, room: int) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.polls = 0
        self._room = room
        self._left = room

    def __len__(self) -> int:
        return self._room - self._left

    def produce(self, *fields: Any) -> None:
        if self._left == 0:
            raise BufferError
        self._left -= 1
        self.taken.append(fields)

    def poll(self, _timeout_s: float) -> None:
        self.polls += 1
        self._left = self._room


@pytest.mark.parametrize("room", [1, 3, _COUNT - 1, _COUNT])
def test_every_message_is_taken_once(room: int) -> None:
    messages = [
        a_message(
            b"%d" % number,
            key=b"key %d" % number,
            headers=[("number", b"%d" % number)],
            timestamp=(TIMESTAMP_CREATE_TIME, 1_700_000_000_000 + number),
        )
        for number in range(_COUNT)
    ]
    producer = _Refusing(room)
    write_messages(cast(Producer, producer), messages, topic="sink", keep_partition=True, room_within_s=_WAITS_S)
    assert producer.taken == [
        ("sink", m.value(), m.key(), m.partition(), None, None, m.timestamp()[1], m.headers()) for m in messages
    ]
    assert producer.polls == (_COUNT - 1) // room


@pytest.mark.parametrize("room", [1, 3, _COUNT - 1, _COUNT])
@pytest.mark.parametrize("named", [None, "another"])
def test_every_output_is_taken_once(room: int, named: str | None) -> None:
    outputs = [
        Output(b"%d" % number, None, [("n", b"")], None if number % 2 else number, named if number % 4 else None)
        for number in range(_COUNT)
    ]
    producer = _Refusing(room)
    write_outputs(cast(Producer, producer), outputs, topic="sink", room_within_s=_WAITS_S)
    assert producer.taken == [
        (o.topic or "sink", o.value, o.key, -1, None, None, o.timestamp_ms or 0, o.headers) for o in outputs
    ]


def test_where_nothing_comes_out_nothing_is_taken() -> None:
    producer = _Refusing(0)
    write_outputs(cast(Producer, producer), [], topic="sink", room_within_s=_WAITS_S)
    write_messages(cast(Producer, producer), [], topic="sink", keep_partition=True, room_within_s=_WAITS_S)
    assert (producer.taken, producer.polls) == ([], 0)


def test_record_that_even_the_empty_queue_has_no_room_for_is_refused_with_the_setting_named() -> None:
    queue = Producer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.kbytes": 1, **QUIET})
    with pytest.raises(
        RefusedError, match=r"an output for dead is larger than queue\.buffering\.max\.kbytes"
    ) as raised:
        write_outputs(queue, [Output(b"x" * 1_025, None, None, None, "dead")], topic="sink", room_within_s=_WAITS_S)
    assert raised.value.setting == "queue.buffering.max.kbytes"
    queue.purge()


def test_record_above_the_clients_own_limit_is_refused_with_topic_and_setting() -> None:
    client = Producer({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": 1_000, **QUIET})
    small, large = Output(b"x", None, None, None, None), Output(b"x" * 1_000, None, None, None, "routed")
    with pytest.raises(RefusedError, match=r"an output for routed is larger than message\.max\.bytes") as raised:
        write_outputs(client, [small, large, small], topic="sink", room_within_s=_WAITS_S)
    assert raised.value.setting == "message.max.bytes"
    client.purge()


def test_wait_for_room_ends_where_nothing_leaves_the_queue() -> None:
    queue = Producer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.kbytes": 1, **QUIET})
    one = Output(b"x" * 600, None, None, None, None)
    with pytest.raises(AbortableError, match=r"no room for the outputs within 0\.2 s") as raised:
        write_outputs(queue, [one, one], topic="sink", room_within_s=0.2)
    assert not raised.value.keeps_producer
    queue.purge()
