"""The Transactions page over 50,000 ids: milliseconds of the server for an answer, by what is asked for.

`python -m bench.transactions_page` prints the figures and writes them to bench/results/transactions_page.json. The
application is called in memory, on a real database that knows 20,000 of the ids as ours; one page with 50 rows and its
two charts each time, from a snapshot that is new each time, as while transactions go on. cpu: of the server alone,
whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_pace import TransactionPace
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot, SnapshotSource
from app.core.pipelines.pipeline_record import Revision
from app.core.pipelines.store import PipelineStore
from app.core.wiring import Wiring
from app.edges.db import migrations
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from bench.machine import keep, machine
from tests.support.databases import create_database
from tests.support.definitions import a_definition
from tests.support.wiring import client_of, settings_for_test, token_of, wired

IDS = 50_000
OURS = 20_000
TIMES = 40
PIPELINE = "bench"
_CLAIMED_AT_ONCE = 5_000
_QUERIES = {
    "all": "",
    "search": "&search=.4999",
    "open": "&state=open",
    "open_for_a_minute": "&min_open_s=60",
    "ours": "&owner=ours",
    "foreign_by_id": "&owner=foreign&sort=id",
    "changed_last": "&sort=changed",
}


def snapshot_of(now_ms: int) -> Snapshot:
    """A fifth of the ids is open, most of these for less than a second."""
    statuses = (TransactionStatus.ONGOING, *(TransactionStatus.COMPLETE_COMMIT,) * 4)
    found: dict[str, LiveTransaction] = {}
    pace = TransactionPace()
    for number in range(IDS):
        name = name_of(number)
        began_ms = now_ms - (number % 97) * 10 - (90_000 if number % 1_000 == 0 else 0)
        status = statuses[number % len(statuses)]
        partitions = (TopicPartitions("orders", (number % 12,)),)
        state = TransactionState(number, 3, 60_000, status, partitions, began_ms, began_ms)
        found[name] = LiveTransaction(name, state, number % 50, number, commits=number)
        pace.note(None, state, now_ms - number * 18)
    journal = JournalStatus(
        topic="__transaction_state",
        phase=ReadingPhase.LIVE,
        phase_since_ms=now_ms,
        source=SnapshotSource.JOURNAL,
        as_of_ms=now_ms,
        complete_since_ms=None,
    )
    return Snapshot(
        cluster="c",
        number=1,
        at_ms=now_ms,
        transaction_journal=journal,
        group_journal=journal,
        transactions=found,
        pace=pace,
    )


def name_of(number: int) -> str:
    return f"fl.t.{PIPELINE}.{number}.0"


async def measure(wiring: Wiring) -> dict[str, dict[str, float]]:
    now = datetime.now(UTC)
    async with wiring.unit_of_work() as uow:
        cluster = Cluster(
            name="c", kafka_cluster_id="kafka-1", bootstrap_servers="127.0.0.1:1", created_at=now, created_by="bench"
        )
        await uow.of(ClusterStore).add(cluster)
        revision = Revision(
            pipeline=PIPELINE,
            number=1,
            definition=a_definition(cluster="c"),
            definition_sha256="0" * 64,
            transform_source_sha256=None,
            created_at=now,
            created_by="bench",
        )
        await uow.of(PipelineStore).add(name=PIPELINE, revision=revision, cluster="c")
        for start in range(0, OURS, _CLAIMED_AT_ONCE):
            ids = [(name_of(number), number, 0) for number in range(start, start + _CLAIMED_AT_ONCE)]
            await uow.of(TransactionalIdStore).claim(pipeline=PIPELINE, kafka_cluster_id="kafka-1", ids=ids)
        await uow.commit()
    snapshot = snapshot_of(int(now.timestamp() * 1000))
    figures: dict[str, dict[str, float]] = {}
    async with client_of(create_users_app(wiring), token=await token_of(wiring, Role.VIEWER)) as client:
        for what, query in _QUERIES.items():
            took_ms: list[float] = []
            cpu_ms: list[float] = []
            for turn in range(TIMES + 5):
                snapshot = msgspec.structs.replace(snapshot, number=snapshot.number + 1)
                wiring.observations.publish(snapshot)
                began, cpu_began = time.perf_counter(), time.process_time()
                answer = await client.get(f"/transactions?cluster=c{query}", headers={"accept": "text/html"})
                answer.raise_for_status()
                if turn >= 5:
                    took_ms.append((time.perf_counter() - began) * 1000)
                    cpu_ms.append((time.process_time() - cpu_began) * 1000)
            figures[what] = {
                "p50_ms": round(quantiles(took_ms, n=20)[9], 1),
                "p95_ms": round(quantiles(took_ms, n=20)[18], 1),
                "cpu_p50_ms": round(quantiles(cpu_ms, n=20)[9], 1),
            }
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder, EmbeddedPostgres.start() as postgres:
        url = create_database(postgres.url)

        async def run() -> dict[str, dict[str, float]]:
            await migrations.upgrade(url)
            async with wired(url, settings_for_test(Path(folder))) as wiring:
                return await measure(wiring)

        on = machine()
        keep("transactions_page", on, {"ids": IDS, "ours": OURS, "answers": asyncio.run(run())})


if __name__ == "__main__":
    main()
