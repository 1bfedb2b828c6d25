"""Errors that a poll returns in place of records: a fatal one ends the attempt, all others are reported."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from workers.loop.errors import FatalError
from workers.loop.group.membership import Membership


class Consumer:
    """Brings one batch."""

    def __init__(self, *batch: Message) -> None:
        self._batch = list(batch)

    def consume(self, _count: int, _timeout_s: float) -> list[Message]:
        return self._batch


class Recorder:
    is_on = False


def membership(*batch: Message) -> Membership:
    nothing = cast(Any, None)
    return Membership(
        cast(Any, Consumer(*batch)),
        ownership=nothing,
        confirmed=None,
        end_checkpoint=nothing,
        announce=nothing,
        recorder=cast(Any, Recorder()),
    )


def told(code: int) -> Message:
    return Message(error=KafkaError(code, "instance id in use"))


def test_a_client_that_is_over_ends_the_attempt() -> None:
    """As a member of a KIP-848 group is informed that another one has its `group.instance.id`."""
    message = told(KafkaError._FATAL)
    error = message.error()
    assert error is not None
    assert not error.fatal(), "now it says so itself: ask it"
    with pytest.raises(FatalError, match="instance id in use"):
        membership(message).consume(10, 0.1)


def test_what_passes_is_told_beside_the_records() -> None:
    record, passing = Message(value=b"x"), told(KafkaError._TRANSPORT)
    assert membership(record, passing).consume(10, 0.1) == ([record], [passing.error()])


GIVEN_UP = (
    'Failed to fetch committed offsets for 0 partition(s) in group "g": Broker: Not coordinator',
    'Failed to fetch committed offsets for partitions in group "g": Local: Broker transport failure',
)


@pytest.mark.parametrize("said", GIVEN_UP)
def test_a_client_that_asks_no_more_where_its_partitions_begin_ends_the_attempt(said: str) -> None:
    """A fault run found it: two partitions delivered nothing, and the client never confirmed two revoked ones."""
    with pytest.raises(FatalError, match="committed offsets"):
        membership(Message(error=KafkaError(KafkaError.NOT_COORDINATOR, said))).consume(10, 0.1)


def test_offsets_that_are_only_undecided_are_asked_for_again() -> None:
    undecided = Message(error=KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT, GIVEN_UP[0]))
    assert membership(undecided).consume(10, 0.1) == ([], [undecided.error()])


def test_what_is_said_of_one_partition_is_told_and_no_end() -> None:
    """Such as a topic that one may not read."""
    of_one = Message(topic="in", partition=1, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, GIVEN_UP[0]))
    assert membership(of_one).consume(10, 0.1) == ([], [of_one.error()])
