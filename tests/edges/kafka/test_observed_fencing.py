"""Every recorded scene on real brokers, through observer and recorder into Postgres."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.loop import FencingRecorder
from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.observing.service.observations import Observations
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.kit.clock import SystemClock
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.journal_recording import VERSIONS, Stage, Version, play
from tests.support.waiting import wait_for_async
from tests.support.watched import observer_of

# taken-0 was taken over and then restarted with nothing open; late-0 timed out. Nothing else is of the kind: not the
# epochs of the KIP-890 client, not the aborts of loop-0.
TOLD = {
    ("taken-0", 0): FencingCause.TAKEOVER,
    ("taken-0", 2): FencingCause.CLEAN_RESTART,
    ("late-0", 0): FencingCause.TIMEOUT,
}
_WITHIN_S = 30.0


class Watching:
    """A server's observer and recorder, as app/edges/main/server.py puts them together."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.observations = Observations(is_on=True)
        clock = SystemClock()
        self.recorder = FencingRecorder(unit_of_work=database.unit_of_work, clock=clock, where=str(folder))
        self.observer = observer_of(database, folder, self.observations, on_steps=self.recorder.take)

    async def has_seen(self, transactional_id: str) -> bool:
        return transactional_id in self.observations.of("prod").transactions

    async def told(self) -> dict[tuple[str, int], FencingCause]:
        await self.recorder.turn()
        async with self.database.unit_of_work() as uow:
            page = await uow.of(FencingStore).list(FencingFilter(with_what_is_none=True), after=None, limit=100)
        return {
            (record.event.key.transactional_id, record.event.key.producer_epoch): record.event.verdict.cause
            for record in page.items
        }


async def register(database: Database, kafka: KafkaCluster, kafka_cluster_id: str) -> None:
    async with database.unit_of_work() as uow:
        await uow.of(ClusterStore).add(
            Cluster(
                name="prod",
                kafka_cluster_id=kafka_cluster_id,
                bootstrap_servers=kafka.bootstrap_servers,
                created_at=datetime.now(UTC),
                created_by="ann",
            )
        )
        await uow.commit()


@pytest.mark.slow
@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
async def test_fencing_in_the_journals_is_recorded_once_by_two_servers(
    version: Version, database: Database, tmp_path: Path
) -> None:
    overrides = {
        **TEST_BROKER_SETTINGS,
        **version.settings,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with KafkaCluster.start(jars=version.jars, overrides=overrides) as kafka:
        await register(database, kafka, kafka.cluster_id)
        servers = [Watching(database, tmp_path / name) for name in ("one", "two")]
        try:
            for server in servers:
                await server.observer.turn()
            await asyncio.to_thread(play, Stage(kafka.bootstrap_servers, version.jars))
            for server in servers:
                await wait_for_async(partial(server.has_seen, "open-0"), _WITHIN_S, "the last scene")
            both = await asyncio.gather(*(server.told() for server in servers))
        finally:
            for server in servers:
                await server.observer.close()
        assert both == [TOLD, TOLD]
        # A server that begins now reads the same past from the journal, and writes nothing anew.
        third = Watching(database, tmp_path / "three")
        try:
            await third.observer.turn()
            await wait_for_async(partial(third.has_seen, "open-0"), _WITHIN_S, "the journal's end")
            assert third.recorder.waiting > 0
            assert await third.told() == TOLD
        finally:
            await third.observer.close()
