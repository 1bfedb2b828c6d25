"""Jobs of DataFrames for tests: a query with its topic, name and checkpoint, and what it wrote."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from tests.support.dataframes.drivers import Driver, DriverDiedError
from tests.support.quiet import QUIET
from tests.support.verifier import read_all

EVENTS = 4000
EACH = 1000
EPOCH_S = 1_700_000_000
CARRIERS = ["AA", "B6", "DL", "UA"]

Rows = Counter[tuple[bytes | None, bytes | None]]


class Job(NamedTuple):
    """A query of one test: its own topic, name and checkpoint."""

    bootstrap_servers: str
    name: str
    topic: str
    checkpoint: Path

    def order(self, source: str, kind: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "source": source,
            "kind": kind,
            "name": self.name,
            "topic": self.topic,
            "checkpoint": str(self.checkpoint),
            "each": EACH,
            **more,
        }

    def rows(self, topic: str | None = None) -> Rows:
        return Counter((found.key, found.value) for found in read_all(self.bootstrap_servers, topic or self.topic))


def write_events(bootstrap_servers: str, topic: str, count: int) -> None:
    """Write so many events to a topic of four partitions, ten for each second of event time."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, **QUIET})
    for number in range(count):
        event = {
            "id": number,
            "carrier": CARRIERS[number % 7 % 4],
            "delay": number % 61 - 20,
            "t": 1_700_000_000 + number // 10,
        }
        producer.produce(topic, key=str(number % 97).encode(), value=json.dumps(event).encode(), partition=number % 4)
    assert producer.flush(30) == 0


def comparable(kind: str, rows: Rows) -> Rows:
    """Rows of a query that is not deterministic without their random part."""
    if kind != "random_rows":
        return rows
    return Counter((key, (value or b"").rpartition(b" ")[0]) for key, value in rows.elements())


def run_until_killed(driver: Driver, **order: Any) -> None:
    driver.begin(**{"do": "run", **order})
    try:
        answer = driver.answer()
    except DriverDiedError:
        return
    # The JVM is gone; its Python driver may live.
    assert "error" in answer, f"nothing was killed: {answer}"
    driver.kill()
