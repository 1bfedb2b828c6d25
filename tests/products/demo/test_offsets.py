"""A question of the demo's outlives a broker that is away for a while, and has an end."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.edges.embedded.errors import EmbeddedError
from app.products.demo.offsets import answered


class JustThawed:
    """Answers like a broker that was frozen: some refusals, then the offset."""

    def __init__(self, *, refusals: int) -> None:
        self.asked = 0
        self._refusals = refusals

    def __call__(self) -> int:
        self.asked += 1
        if self.asked <= self._refusals:
            raise KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH, "Leader epoch is older"))
        return 42


def test_a_refusal_while_a_leader_moves_is_asked_again() -> None:
    broker = JustThawed(refusals=2)
    assert answered("the offsets of late", broker) == 42
    assert broker.asked == 3


def test_who_is_refused_for_too_long_says_what_was_asked_and_the_last_answer() -> None:
    with pytest.raises(EmbeddedError, match=r"the offsets of late: Leader epoch is older \(1 tries in 0 s\)"):
        answered("the offsets of late", JustThawed(refusals=1), patience_s=0)
