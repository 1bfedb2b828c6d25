"""What the search for hanging transactions costs: requests, time and processor, here and at the broker, by partitions.

`python -m bench.hanging_sweep` prints the figures and writes them to bench/results/hanging_sweep.json. The broker is a
real one. Sweeps follow each other without the rest that the server takes between them; the figures are of one.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import psutil

from app.core.clusters.partition import Partition
from app.core.hanging.brokers import PARTITIONS_A_REQUEST, SearchConnection
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transactions.searching import KafkaSearch
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.topics import create_topic
from tests.support.waiting import wait_for

TOPICS = 4
PARTITIONS_OF_EACH = 500
SWEEPS = 20
RESULTS = Path(__file__).parent / "results" / "hanging_sweep.json"


def _cpu_s(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


def sweep(connection: SearchConnection, partitions: tuple[Partition, ...]) -> int:
    """All of them, as the server does it; how many requests each leader got."""
    requests = 0
    for first in range(0, len(partitions), PARTITIONS_A_REQUEST):
        some = partitions[first : first + PARTITIONS_A_REQUEST]
        told = connection.stable_ends(some)
        assert len(told.ends) == len(some), told.silent
        requests += 2
    return requests


def measure(kafka: KafkaCluster) -> dict[str, Any]:
    here = psutil.Process()
    brokers = [child for child in here.children(recursive=True) if "java" in child.name()]
    search = KafkaSearch(environment={}, secrets_dir=None)
    with search.open_search({"bootstrap.servers": kafka.bootstrap_servers}, timeout_s=30) as connection:
        began, ours = time.perf_counter(), _cpu_s([here])
        partitions = connection.all_partitions()
        listing_s, listing_cpu_s = time.perf_counter() - began, _cpu_s([here]) - ours
        # Leaders are named before they are ready to answer.
        wait_for(lambda: not connection.stable_ends(partitions).is_stale, 30, "every leader to answer")
        requests = sweep(connection, partitions)
        # Until the broker's code is compiled.
        for _ in range(SWEEPS):
            sweep(connection, partitions)
        began, ours, theirs = time.perf_counter(), _cpu_s([here]), _cpu_s(brokers)
        for _ in range(SWEEPS):
            sweep(connection, partitions)
        took_s = time.perf_counter() - began
        return {
            "partitions": len(partitions),
            "requests_a_sweep": requests,
            "sweep_ms": round(took_s / SWEEPS * 1000, 1),
            "server_cpu_ms_a_sweep": round((_cpu_s([here]) - ours) / SWEEPS * 1000, 1),
            "broker_cpu_ms_a_sweep": round((_cpu_s(brokers) - theirs) / SWEEPS * 1000, 1),
            "listing_of_all_ms": round(listing_s * 1000, 1),
            "listing_of_all_server_cpu_ms": round(listing_cpu_s * 1000, 1),
            "load_average": round(os.getloadavg()[0], 1),
        }


def main() -> None:
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as kafka:
        for number in range(TOPICS):
            create_topic(kafka.bootstrap_servers, f"wide-{number}", partitions=PARTITIONS_OF_EACH)
        found = measure(kafka)
    text = json.dumps(found, indent=2)
    print(text)
    RESULTS.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
