"""From the broker's append to a reader of the snapshots: milliseconds, while 2,000 transactions a second are written.

`python -m bench.observer_latency` prints the figures and writes them to bench/results/observer_latency.json. What is
written are the records of whole transactions, as coordinators write them, into the journal of a real broker, by a
process beside this one. The broker stamps each with the moment of its append; the reader, on an event loop as in the
server, compares.
"""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from app.domain.journals.transaction_state import (
    TOPIC,
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    encode_key,
    encode_value,
)
from app.domain.observing.live_cluster import JOURNALS
from app.domain.observing.snapshot import Phase, Snapshot
from app.domain.transactions.transactional_id import transaction_log_partition
from app.embedded.kafka import Jvm, KafkaCluster
from app.fold_files import FoldFiles
from app.kafka.journal_tail import KafkaJournals
from app.loops.cluster_observer import ClusterObserver
from app.services.observing.observations import Observations
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.watched import cluster_at

TRANSACTIONS_PER_S = 2_000
IDS = 2_000
SECONDS = 20.0
WARM_UP_S = 5.0
RESULTS = Path(__file__).parent / "results" / "observer_latency.json"
_TICK_S = 0.005
_LIFE = (
    TransactionStatus.ONGOING,
    TransactionStatus.ONGOING,
    TransactionStatus.PREPARE_COMMIT,
    TransactionStatus.COMPLETE_COMMIT,
)


def write_transactions(bootstrap_servers: str, seconds: float) -> int:
    """Write whole transactions at the rate, evenly; how many it were."""
    # Brokers let nobody else write into their journals.
    settings: dict[str, str | int] = {"client.id": "__admin_client", "linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    began = time.monotonic()
    written = 0
    while (passed := time.monotonic() - began) < seconds:
        while written < passed * TRANSACTIONS_PER_S:
            number = written % IDS
            name = f"fl.t.replayed.{number}.0"
            for status in _LIFE:
                producer.produce(
                    TOPIC,
                    key=encode_key(name),
                    value=encode_value(_state(number, status)),
                    partition=transaction_log_partition(name),
                )
            written += 1
        producer.poll(0)
        time.sleep(_TICK_S)
    assert producer.flush(30) == 0
    return written


def _state(number: int, status: TransactionStatus) -> TransactionState:
    now_ms = int(time.time() * 1000)
    partitions = (TopicPartitions("orders.copied", (number % 12,)), TopicPartitions("__consumer_offsets", (3,)))
    return TransactionState(number, 0, 60_000, status, partitions, now_ms, now_ms, client_transaction_version=2)


async def measure(kafka: KafkaCluster, folder: Path) -> dict[str, object]:
    # A first transaction makes the journal.
    first = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "first"})
    first.init_transactions(30)
    _stamp_with_append_time(kafka.bootstrap_servers)
    loop = asyncio.get_running_loop()
    observations = Observations(is_on=True)

    def publish(snapshot: Snapshot) -> None:
        loop.call_soon_threadsafe(observations.publish, snapshot)

    observer = ClusterObserver(
        cluster_at(kafka.bootstrap_servers, kafka.cluster_id),
        journals=KafkaJournals(environment={}, secrets_dir=None, topics=JOURNALS),
        store=FoldFiles(folder, groups=()),
        publish=publish,
        is_wanted=lambda _: True,
        now_ms=lambda: int(time.time() * 1000),
        save_every_s=10.0,
    )
    observer.start()
    snapshot = await observations.newer("c", than=0, timeout_s=30)
    while snapshot.transaction_journal.phase is not Phase.LIVE:
        snapshot = await observations.newer("c", than=snapshot.number, timeout_s=30)
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.observer_latency", kafka.bootstrap_servers, str(SECONDS + WARM_UP_S)),
        stdout=asyncio.subprocess.PIPE,
    )
    began = time.monotonic()
    latencies: list[float] = []
    snapshots = 0
    cpu = psutil.Process().cpu_times()
    while time.monotonic() - began < SECONDS + WARM_UP_S:
        newer = await observations.newer("c", than=snapshot.number, timeout_s=1.0)
        if newer.number != snapshot.number and time.monotonic() - began > WARM_UP_S:
            snapshots += 1
            latencies += _latencies(newer, than=snapshot.number)
        snapshot = newer
    used = psutil.Process().cpu_times()
    written = int((await writer.communicate())[0])
    assert await asyncio.to_thread(observer.stop)
    latencies.sort()
    status = snapshot.transaction_journal
    return {
        "transactions_per_second": round(written / (SECONDS + WARM_UP_S)),
        "journal_records_per_transaction": len(_LIFE),
        "ids": IDS,
        "append_to_reader_ms_p50": round(latencies[len(latencies) // 2], 1),
        "append_to_reader_ms_p99": round(latencies[int(len(latencies) * 0.99)], 1),
        "append_to_reader_ms_max": round(latencies[-1], 1),
        "snapshots_per_second": round(snapshots / SECONDS, 1),
        "cores_used": round((used.user + used.system - cpu.user - cpu.system) / (SECONDS + WARM_UP_S), 2),
        "records_read": status.records_read,
        "lag_records_at_the_end": status.lag_records,
        # Of all processes of the machine: with more than it has cores, it is the others that are measured.
        "load_average": round(os.getloadavg()[0], 1),
    }


def _stamp_with_append_time(bootstrap_servers: str) -> None:
    topic = ConfigResource(ResourceType.TOPIC, TOPIC)
    setting = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    topic.add_incremental_config(setting)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for altered in admin.incremental_alter_configs([topic]).values():
        altered.result(30)


def _latencies(snapshot: Snapshot, *, than: int) -> list[float]:
    """Of every id that has changed, in milliseconds: how old its newest record is at the reader."""
    now_ms = time.time() * 1000
    return [
        now_ms - snapshot.transactions[name].timestamp_ms
        for name, number in snapshot.transactions_changed.items()
        if number > than
    ]


def main() -> None:
    if len(sys.argv) > 1:
        print(write_transactions(sys.argv[1], float(sys.argv[2])))
        return
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jvm=Jvm(heap_mb=512, quick_start=False)) as kafka,
    ):
        figures = asyncio.run(measure(kafka, Path(folder)))
    print(json.dumps(figures))
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
