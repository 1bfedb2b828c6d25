"""The largest record of the client, and the reason for a refused one."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Producer

from tests.support.quiet import QUIET
from tests.workers.loop.test_parts import specification
from workers.loop.client_config import (
    LARGEST_REQUEST_BYTES,
    Batches,
    consumer_config,
    idempotent_producer_config,
    is_compressing,
    transactional_producer_config,
)
from workers.loop.errors import RefusedError, translated
from workers.loop.producing.limits import Limits

NOTHING: dict[str, str] = {}


class Brokers:
    """Tell these settings, of each broker and of every topic."""

    def __init__(self, *brokers: dict[str, str], topic: dict[str, str] | None = None) -> None:
        self._brokers, self._topic = brokers, topic or {}

    def settings_of_brokers(self) -> list[dict[str, str]]:
        return list(self._brokers)

    def settings_of_topic(self, topic: str) -> dict[str, str]:
        return self._topic


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ([], LARGEST_REQUEST_BYTES),
        ([NOTHING], LARGEST_REQUEST_BYTES),
        ([{"socket.request.max.bytes": "9000000"}, {"socket.request.max.bytes": "8000000"}, NOTHING], 8_000_000),
    ],
)
def test_largest_request_is_the_smallest_limit_of_the_brokers_or_the_default(
    brokers: list[dict[str, str]], expected: int
) -> None:
    assert Limits(Brokers(*brokers)).largest_request_bytes == expected


@pytest.mark.parametrize("largest", [1_000_000, LARGEST_REQUEST_BYTES, 900_000_000])
def test_queue_has_room_for_the_largest_record(largest: int) -> None:
    batches = Batches(largest_request_bytes=largest)
    for config in (
        transactional_producer_config(specification(), batches=batches),
        idempotent_producer_config(specification(), batches=batches),
    ):
        assert largest - 20_000 < int(config["message.max.bytes"]) < largest
        assert int(config["queue.buffering.max.kbytes"]) * 1_024 >= int(config["message.max.bytes"])


@pytest.mark.parametrize("largest", [1, 16_384, 1_000_016_385, 2_147_483_647])
def test_client_takes_every_largest_request_of_the_brokers(largest: int) -> None:
    config = idempotent_producer_config(specification(), batches=Batches(largest_request_bytes=largest))
    Producer({**config, "bootstrap.servers": "127.0.0.1:1", **QUIET})
    assert int(config["queue.buffering.max.kbytes"]) * 1_024 >= int(config["message.max.bytes"])


def test_configured_limits_stay() -> None:
    chosen = specification(
        producer_overrides={"message.max.bytes": "2000", "queue.buffering.max.kbytes": "1024"},
        consumer_overrides={"fetch.max.bytes": "900000000"},
    )
    config = idempotent_producer_config(chosen)
    assert (config["message.max.bytes"], config["queue.buffering.max.kbytes"]) == ("2000", "1024")
    assert int(consumer_config(chosen)["receive.message.max.bytes"]) >= 900_000_512


def test_answer_may_be_larger_than_the_largest_batch_and_garbage_is_still_reported() -> None:
    most = int(consumer_config(specification())["receive.message.max.bytes"])
    tls_alert, http = int.from_bytes(b"\x15\x03\x01\x00"), int.from_bytes(b"HTTP")
    assert LARGEST_REQUEST_BYTES + 52_428_800 < most < min(tls_alert, http)


@pytest.mark.parametrize(
    ("named", "expected"),
    [({}, False), ({"compression.type": "none"}, False), ({"compression.type": "lz4"}, True)],
)
def test_configured_compression_is_known(named: dict[str, str], expected: bool) -> None:
    assert is_compressing(specification(producer_overrides=named)) is expected


def refused(code: int) -> RefusedError:
    said = "ProduceRequest for out.x [0] with 1 message(s) failed: Broker: no (broker 1 PID{Id:1,Epoch:0}, base seq 0)"
    error = translated(KafkaError(code, said), "flush the outputs")
    assert isinstance(error, RefusedError)
    return error


@pytest.mark.parametrize(
    ("code", "topic", "ending"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, {"max.message.bytes": "1048588"}, "See max.message.bytes=1048588 of out.x"),
        (KafkaError.MSG_SIZE_TOO_LARGE, {}, "See max.message.bytes of out.x"),
        (
            KafkaError.INVALID_TIMESTAMP,
            {"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "5"},
            "See message.timestamp.before.max.ms=5, message.timestamp.after.max.ms=3600000 of out.x",
        ),
        (KafkaError.INVALID_RECORD, {"cleanup.policy": "compact"}, "See cleanup.policy=compact of out.x"),
    ],
)
def test_refusal_names_topic_limit_and_setting(code: int, topic: dict[str, str], ending: str) -> None:
    said = Limits(Brokers(topic=topic)).why_refused(refused(code))
    assert said.startswith(f"out.x refuses it ({KafkaError(code).name()})")
    assert said.endswith(ending)


def test_refusal_by_the_client_names_its_setting_and_the_brokers_limit() -> None:
    error = RefusedError(
        "an output for x is larger than message.max.bytes of the producer", setting="message.max.bytes"
    )
    said = Limits(Brokers({"socket.request.max.bytes": "8000000"})).why_refused(error)
    assert said.endswith("brokers take requests of 8000000 bytes (socket.request.max.bytes)")
