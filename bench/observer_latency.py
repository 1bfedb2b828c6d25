"""From the broker's append to a reader of the snapshots: milliseconds, while 2,000 transactions a second are written.

`python -m bench.observer_latency` prints the figures and writes them to bench/results/observer_latency.json. The
records are written into the journal of a real broker by a process beside this one. The broker stamps each with the
moment of its append; the reader, on an event loop as in the server, compares: of every id, not of a probe alone.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import psutil

from app.core.observing.fold_files import FoldFiles
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.loops.cluster_observer import ClusterObserver
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.kafka.journal_tail import KafkaJournals
from bench.journal_load import IDS, RECORDS_PER_TRANSACTION, journal_load, prepare
from bench.machine import keep, machine
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.watched import cluster_at

SECONDS = 20.0
WARM_UP_S = 5.0


async def measure(kafka: KafkaCluster, folder: Path) -> dict[str, object]:
    prepare(kafka.bootstrap_servers)
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
    while snapshot.transaction_journal.phase is not ReadingPhase.LIVE:
        snapshot = await observations.newer("c", than=snapshot.number, timeout_s=30)
    with journal_load(kafka.bootstrap_servers, SECONDS + WARM_UP_S, beside=False) as load:
        latencies, snapshots, cores, snapshot = await _read(observations, snapshot)
        written = int((await asyncio.to_thread(load.communicate))[0].split()[0])
    assert await asyncio.to_thread(observer.stop)
    latencies.sort()
    status = snapshot.transaction_journal
    return {
        "transactions_per_second": round(written / (SECONDS + WARM_UP_S)),
        "journal_records_per_transaction": RECORDS_PER_TRANSACTION,
        "ids": IDS,
        "append_to_reader_ms_p50": round(latencies[len(latencies) // 2], 1),
        "append_to_reader_ms_p99": round(latencies[int(len(latencies) * 0.99)], 1),
        "append_to_reader_ms_max": round(latencies[-1], 1),
        "snapshots_per_second": round(snapshots / SECONDS, 1),
        "cores_used": round(cores, 2),
        "records_read": status.records_read,
        "lag_records_at_the_end": status.lag_records,
    }


async def _read(observations: Observations, snapshot: Snapshot) -> tuple[list[float], int, float, Snapshot]:
    """Latencies, how many snapshots there were, how many cores the process used, and the newest snapshot."""
    began = time.monotonic()
    found: list[float] = []
    snapshots = 0
    cpu = psutil.Process().cpu_times()
    while time.monotonic() - began < SECONDS + WARM_UP_S:
        newer = await observations.newer("c", than=snapshot.number, timeout_s=1.0)
        if newer.number != snapshot.number and time.monotonic() - began > WARM_UP_S:
            snapshots += 1
            found += _latencies(newer, before=snapshot)
        snapshot = newer
    used = psutil.Process().cpu_times()
    return found, snapshots, (used.user + used.system - cpu.user - cpu.system) / (SECONDS + WARM_UP_S), snapshot


def _latencies(snapshot: Snapshot, *, before: Snapshot) -> list[float]:
    """The age of the newest record at the reader, for every id that has changed, in milliseconds."""
    now_ms = time.time() * 1000
    return [
        now_ms - live.timestamp_ms
        for name, live in snapshot.transactions.items()
        if live is not before.transactions.get(name)
    ]


def main() -> None:
    on = machine()
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jvm=Jvm(heap_mb=512, quick_start=False)) as kafka,
    ):
        figures = asyncio.run(measure(kafka, Path(folder)))
    keep("observer_latency", on, figures)


if __name__ == "__main__":
    main()
