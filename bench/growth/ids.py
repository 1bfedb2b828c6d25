"""Transactional ids as coordinators would have written them into their journal, and a user who watches them."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from confluent_kafka import Producer

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import (
    TOPIC,
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    encode_key,
    encode_value,
)
from bench.growth.server import CLUSTER, MeasuredServer
from tests.support.waiting import wait_for

TRANSACTIONS_PER_S = 200
_TICK_S = 0.02
_FRAME_END = b"\r\n\r\n"
_LIFE = (
    TransactionStatus.ONGOING,
    TransactionStatus.ONGOING,
    TransactionStatus.PREPARE_COMMIT,
    TransactionStatus.COMPLETE_COMMIT,
)


def written(server: MeasuredServer, begin: int, end: int) -> float:
    """Ids `begin` to `end` have had a transaction each, and the server has read of it; seconds until it had."""
    producer = _producer(server.bootstrap_servers)
    for number in range(begin, end):
        for status in (TransactionStatus.EMPTY, *_LIFE):
            _produce(producer, number, status)
    assert producer.flush(60) == 0
    began = time.monotonic()
    path = f"/api/v1/clusters/{CLUSTER}/observer"

    def is_read() -> bool:
        reading = server.process.ask(path).json()["transactions"]
        return reading["lag_records"] == 0 and reading["records_read"] >= end * (1 + len(_LIFE))

    wait_for(is_read, 60, lambda: server.process.ask(path).text)
    return round(time.monotonic() - began, 1)


@contextmanager
def going_round(bootstrap_servers: str, size: int) -> Generator[None]:
    """So many whole transactions a second, of one id after the other."""
    ends = threading.Event()

    def go() -> None:
        producer = _producer(bootstrap_servers)
        began, done = time.monotonic(), 0
        while not ends.wait(_TICK_S):
            while done < (time.monotonic() - began) * TRANSACTIONS_PER_S:
                for status in _LIFE:
                    _produce(producer, done % size, status)
                done += 1
            producer.poll(0)
        assert producer.flush(30) == 0

    thread = threading.Thread(target=go, name="transactions", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@dataclass
class Frames:
    count: int = 0


@contextmanager
def watched(server: MeasuredServer) -> Generator[Frames]:
    """A browser has the first page of all ids open; how many frames it got meanwhile."""
    frames, ends = Frames(), threading.Event()

    def look() -> None:
        with httpx.Client(base_url=server.process.url, timeout=30, trust_env=False) as browser:
            server.process.log_in(browser)
            with browser.stream("GET", f"/transactions/stream?cluster={CLUSTER}") as answer:
                for part in answer.iter_raw():
                    frames.count += part.count(_FRAME_END)
                    if ends.is_set():
                        return

    thread = threading.Thread(target=look, name="browser", daemon=True)
    thread.start()
    try:
        yield frames
    finally:
        ends.set()
        thread.join()


def _producer(bootstrap_servers: str) -> Producer:
    # Brokers let no client write into their journals.
    settings: dict[str, str | int] = {"client.id": "__admin_client", "queue.buffering.max.messages": 1_000_000}
    return Producer({"bootstrap.servers": bootstrap_servers, **settings})


def _produce(producer: Producer, number: int, status: TransactionStatus) -> None:
    name = f"fl.t.pipeline-{number % 500}.{number // 500}.{number % 7}"
    now_ms = int(time.time() * 1000)
    partitions = (TopicPartitions("orders.copied", (number % 12,)), TopicPartitions("__consumer_offsets", (3,)))
    state = TransactionState(number, 0, 60_000, status, partitions, now_ms, now_ms, client_transaction_version=2)
    producer.produce(TOPIC, key=encode_key(name), value=encode_value(state), partition=transaction_log_partition(name))
