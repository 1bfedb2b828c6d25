"""How long "why is my consumer stuck?" takes to name a producer that was left with an open transaction.

`python -m bench.why_stuck` prints the figures and writes them to bench/results/why_stuck.json. The cluster has a
thousand other ids and the topic a dozen partitions; one of them is held. Each answer is a whole one, as a person gets
it: new connections, every partition, the waiting records, the coordinators. The first is asked as soon as the record is
written.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Collection
from pathlib import Path

from app.core.blocked.diagnosis import AdviceVerdict, Asked
from app.core.blocked.service.explaining import explain_topic
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.client import TransactionClient
from app.edges.kafka.transactions.looking import now_ms
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.topics import create_topic
from tests.support.transactions import producer, send

IDS = 1_000
PARTITIONS = 12
WAITING = 1_000
QUESTIONS = 50
RESULTS = Path(__file__).parent / "results" / "why_stuck.json"
_TOPIC = "orders"
_HOLDER = "left.open"


def crowd(bootstrap_servers: str) -> None:
    """Ids that have nothing to do with it."""
    with TransactionClient(
        {"bootstrap.servers": bootstrap_servers}, ConnectionAttempt(bootstrap_servers, 120)
    ) as client:
        for number in range(IDS):
            client.fence(f"somebody.{number}")


async def measure(bootstrap_servers: str) -> dict[str, object]:
    connection = {"bootstrap.servers": bootstrap_servers}
    create_topic(bootstrap_servers, _TOPIC, partitions=PARTITIONS)
    await asyncio.to_thread(crowd, bootstrap_servers)
    holder = producer(connection, _HOLDER)
    plain = producer(connection)
    brokers = KafkaTransactions(environment={}, secrets_dir=None)

    async def asked(_: Collection[str]) -> Asked:
        return Asked(bootstrap_servers=bootstrap_servers, now_ms=now_ms())

    holder.begin_transaction()
    await asyncio.to_thread(send, holder, _TOPIC, "undecided")
    took_ms: list[float] = []
    for question in range(QUESTIONS):
        began = time.perf_counter()
        found = await explain_topic(brokers, connection, _TOPIC, asked)
        took_ms.append((time.perf_counter() - began) * 1000)
        held, *free = found.partitions
        assert held.holder is not None
        assert held.holder.transactional_id == _HOLDER
        assert {one.verdict for one in free} == {AdviceVerdict.FREE}
        if question == 0:
            for number in range(WAITING):
                plain.produce(_TOPIC, str(number), partition=0)
            assert await asyncio.to_thread(plain.flush, 30) == 0
    holder.abort_transaction(30)
    ordered = sorted(took_ms)
    return {
        "other_ids": IDS,
        "partitions": PARTITIONS,
        "waiting_records": WAITING,
        "questions": QUESTIONS,
        "first_ms": round(took_ms[0]),
        "p50_ms": round(ordered[len(ordered) // 2]),
        "max_ms": round(ordered[-1]),
        # The load of all processes of the machine: with more than it has cores, the others are measured.
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jvm=Jvm(heap_mb=512, quick_start=False)) as kafka:
        figures = asyncio.run(measure(kafka.bootstrap_servers))
    print(json.dumps(figures))
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
