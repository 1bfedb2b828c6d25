"""A request of the demo survives a broker that does not answer for a while, and has a time limit."""

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


def test_permanent_refusals_report_the_request_and_the_last_error() -> None:
    with pytest.raises(EmbeddedError, match=r"the offsets of late: Leader epoch is older \(1 tries in 0 s\)"):
        answered("the offsets of late", JustThawed(refusals=1), patience_s=0)
