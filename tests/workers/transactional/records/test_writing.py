"""Every record reaches the producer once, in order and whole, however often its queue is full."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Producer

from tests.support.messages import a_message
from workers.transactional.records.writing import write_messages, write_outputs
from workers.transforms import Output

_COUNT = 20


class _Refusing:
    """Stands for a producer whose queue has room for so many records, and is empty after each poll."""

    def __init__(self, room: int) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.polls = 0
        self._room = room
        self._left = room

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
    write_messages(cast(Producer, producer), messages, topic="sink", keep_partition=True)
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
    write_outputs(cast(Producer, producer), outputs, topic="sink")
    assert producer.taken == [
        (o.topic or "sink", o.value, o.key, -1, None, None, o.timestamp_ms or 0, o.headers) for o in outputs
    ]


def test_where_nothing_comes_out_nothing_is_taken() -> None:
    producer = _Refusing(0)
    write_outputs(cast(Producer, producer), [], topic="sink")
    write_messages(cast(Producer, producer), [], topic="sink", keep_partition=True)
    assert (producer.taken, producer.polls) == ([], 0)
