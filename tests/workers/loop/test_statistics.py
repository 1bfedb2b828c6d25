"""A producer's identity and its slow parts in librdkafka's statistics. On a broker: test_slow_output.py."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import Producer

from tests.support.messages import a_message
from workers.loop.producing.producers import QueueingProducer
from workers.loop.producing.statistics import Statistics, slowness_in
from workers.loop.records.polled import PolledMessages
from workers.loop.records.writing import UnfitError


def statistics(**changes: Any) -> str:
    broker = {"nodeid": 1, "nodename": "b:9092", "state": "UP", "outbuf_msg_cnt": 0, "waitresp_cnt": 0}
    partitions = {"-1": {"leader": 0}, "0": {"leader": 1, "msgq_cnt": 2}, "3": {"leader": 2, "xmit_msgq_cnt": 40}}
    found: dict[str, Any] = {
        "msg_cnt": 0,
        "msg_size": 0,
        "eos": {"producer_id": 7, "producer_epoch": 3},
        "brokers": {"b:9092/1": {**broker, **changes.pop("broker", {})}, "b:9092/bootstrap": {"nodeid": -1}},
        "topics": {"out": {"topic": "out", "partitions": partitions}},
        **changes,
    }
    return msgspec.json.encode(found).decode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        (
            {"broker": {"throttle": {"avg": 900, "max": 3_200}}},
            "broker 1 (b:9092) throttles this client by up to 3,200 ms (a quota)",
        ),
        (
            {"broker": {"waitresp_cnt": 5, "rtt": {"avg": 2_100_000}}},
            "broker 1 (b:9092) answers in 2.1 s on average",
        ),
        ({"broker": {"waitresp_cnt": 5}}, "broker 1 (b:9092) has 5 requests unanswered"),
        ({"broker": {"outbuf_msg_cnt": 5, "state": "TRY_CONNECT"}}, "broker 1 (b:9092) is not connected (TRY_CONNECT)"),
        ({"broker": {"state": "INIT"}}, None),
        (
            {"msg_cnt": 1_200, "msg_size": 99_000},
            "1,200 outputs of 99,000 bytes waited in the client, most for out-3 (leader: broker 2)",
        ),
    ],
)
def test_the_broker_and_the_partition_are_named(changes: dict[str, Any], said: str | None) -> None:
    assert slowness_in(statistics(**changes)) == said


def test_they_are_kept_only_while_outputs_take_long() -> None:
    heard, slow = Statistics("id"), statistics(broker={"waitresp_cnt": 5})
    heard(slow)
    assert heard.cause() is None
    heard.keep()
    heard(slow)
    assert heard.cause() == "broker 1 (b:9092) has 5 requests unanswered"
    heard.forget()
    assert heard.cause() is None


def test_an_identity_is_received_with_or_without() -> None:
    heard = Statistics("id")
    heard(statistics())
    assert heard.identity is not None
    assert (heard.identity.producer_id, heard.identity.epoch) == (7, 3)
    other = Statistics(None)
    other(statistics())
    assert other.identity is None


class _Taking:
    """Stands for a client that takes everything and delivers none of it."""

    def __len__(self) -> int:
        return 1

    def produce(self, *_: Any) -> None: ...


def test_records_that_are_written_again_without_an_unfit_one_are_counted_once() -> None:
    producer = QueueingProducer(cast(Producer, _Taking()), Statistics("id"), {})
    fit, unfit = [a_message(b"x")] * 3, a_message(b"x", timestamp=(1, 0))
    with pytest.raises(UnfitError):
        producer.write_records(PolledMessages([*fit, unfit]), topic="sink", keep_partition=False)
    producer.write_records(PolledMessages(fit), topic="sink", keep_partition=False)
    assert producer.slowness().cause == "0 of 3 outputs were delivered in time"
