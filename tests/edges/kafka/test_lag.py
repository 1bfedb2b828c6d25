"""Lag on real brokers: transactions, markers, a broker that dies, a restart, and what REST, page and command show."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.journals.live_groups import LiveGroup
from app.core.lag.fold_files import LagFiles
from app.core.lag.loops.sampler import LagSampler
from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, PartitionLag
from app.core.lag.service import Lags
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Snapshot
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.searching import KafkaSearch
from tests.conftest import MakeTopic
from tests.support.fixtures import Fenceline
from tests.support.kafka_clients import Writer, write
from tests.support.quiet import QUIET
from tests.support.serving import Serving
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for
from tests.support.watched import Watched, cluster_at, watching

pytestmark = pytest.mark.slow
_ROUND = timedelta(seconds=15)


class Sampled:
    """A sampler of one group on a real broker. Its clock is 15 s later with each round; nothing waits for it."""

    def __init__(self, database: Database, kafka: KafkaCluster, watched: Watched, folder: Path) -> None:
        self.cluster = cluster_at(kafka.bootstrap_servers, kafka.cluster_id)
        self.watched = watched
        self.group = unique_name("readers")
        self.lags = Lags()
        self._database = database
        self._at = datetime.now(UTC)
        self._observations = Observations(is_on=True)
        self._brokers = KafkaSearch(environment={}, secrets_dir=None)
        self._transactions = KafkaTransactions(environment={}, secrets_dir=None)
        self.sampler = self.restarted(folder)

    def now(self) -> datetime:
        return self._at

    def restarted(self, folder: Path) -> LagSampler:
        self.lags = Lags()
        self.sampler = LagSampler(
            unit_of_work=self._database.unit_of_work,
            brokers=self._brokers,
            transactions=self._transactions,
            observations=self._observations,
            lags=self.lags,
            store=LagFiles(folder),
            clock=self,
            where="here",
        )
        return self.sampler

    async def register(self) -> None:
        async with self._database.unit_of_work() as uow:
            await uow.of(ClusterStore).add(self.cluster)
            await uow.commit()

    async def close(self) -> None:
        await self.sampler.close()

    def commit(self, connection: Connection, at: Partition, offset: int) -> None:
        """Commit as a client that assigns the partition itself, and wait until the observer has read it."""
        consumer = Consumer({**connection, **QUIET, "group.id": self.group})

        refusals: list[str] = []

        def is_done() -> bool:
            try:
                consumer.commit(offsets=[TopicPartition(*at, offset)], asynchronous=False)
            except KafkaException as error:
                # The coordinator of a fresh cluster is not there yet, or loads its journal.
                refusals.append(str(error))
                return False
            return True

        try:
            wait_for(is_done, 30, lambda: f"the commit of {at}: {refusals}")
        finally:
            consumer.close()
        self.watched.until(
            lambda seen: self.group in seen.groups and self._committed(seen, at) == offset, f"offset {offset} of {at}"
        )

    def _committed(self, seen: Snapshot, at: Partition) -> int | None:
        found = seen.groups[self.group].offsets.get((at.topic, at.partition))
        return None if found is None else found.commit.offset

    @property
    def live(self) -> LiveGroup:
        assert self.watched.newest is not None
        return self.watched.newest.groups[self.group]

    async def round(self) -> GroupLag:
        newest = self.watched.newest
        assert newest is not None
        self._at += _ROUND
        at_ms = int(self._at.timestamp() * 1000)
        journal = msgspec.structs.replace(newest.group_journal, as_of_ms=at_ms)
        only = {self.group: newest.groups[self.group]}
        self._observations.publish(msgspec.structs.replace(newest, group_journal=journal, groups=only))
        await self.sampler.turn()
        report = self.lags.report_of(self.cluster.name)
        assert report.problem == ""
        return report.groups[self.group]

    async def rows(self) -> list[PartitionLag]:
        detail = await self.lags.of_group(self.cluster, self.live, live={}, now_ms=int(self._at.timestamp() * 1000))
        return list(detail.rows)


@pytest.fixture
async def sampled(kafka: KafkaCluster, database: Database, tmp_path: Path) -> AsyncGenerator[Sampled]:
    with watching(kafka, tmp_path) as watched:
        made = Sampled(database, kafka, watched, tmp_path / "lag")
        await made.register()
        yield made
        await made.close()


async def test_transactions_markers_and_a_block_are_what_they_are(
    sampled: Sampled, make_topic: MakeTopic, connection: Connection
) -> None:
    at = Partition(make_topic(), 0)
    write(connection, at.topic, records=10)
    sampled.commit(connection, at, 4)
    found = await sampled.round()
    assert (found.state, found.lag_records, found.is_bound) == (LagState.UNKNOWN, 6, True)
    sampled.commit(connection, at, 10)
    assert await sampled.round() == msgspec.structs.replace(
        found, state=LagState.HEALTHY, since_ms=found.since_ms + 15_000, lag_records=0, lag_ms=0, is_bound=False
    )

    writer = Writer(connection)
    writer.begin(at.topic, records=3)
    writer.commit()
    sampled.commit(connection, at, 13)
    for _ in range(3):
        found = await sampled.round()
    (row,) = await sampled.rows()
    assert (row.end, row.last_stable, row.unread, row.lag_records) == (14, 14, 1, 0)
    assert row.is_only_markers
    assert (found.state, found.lag_records, found.lag_ms) == (LagState.HEALTHY, 0, 0)

    writer.begin(at.topic, records=2)
    for _ in range(3):
        found = await sampled.round()
    (row,) = await sampled.rows()
    assert (row.end, row.last_stable, row.blocked) == (16, 14, 2)
    # The client has no members: it is blocked as long as its commits are fresh.
    assert (found.state, found.blocked) == (LagState.BLOCKED, 2)

    writer.abort()
    sampled.commit(connection, at, 14)
    for _ in range(3):
        found = await sampled.round()
    assert (found.state, found.lag_records) == (LagState.HEALTHY, 0), "aborted records are no lag"


async def test_restart_keeps_the_age_of_the_oldest_record(
    sampled: Sampled, make_topic: MakeTopic, connection: Connection, tmp_path: Path
) -> None:
    at = Partition(make_topic(), 0)
    sampled.commit(connection, at, 0)
    await sampled.round()
    write(connection, at.topic, records=5)
    for _ in range(5):
        await sampled.round()
    before = await sampled.round()
    assert not before.is_bound
    await sampled.sampler.close()
    sampled.restarted(tmp_path / "lag")
    after = await sampled.round()
    assert (after.is_bound, after.lag_records) == (False, 5)
    assert before.lag_ms is not None
    assert after.lag_ms == before.lag_ms + 15_000
    sampled.restarted(tmp_path / "elsewhere")
    assert (await sampled.round()).is_bound, "the control: without the file it is not known"


async def test_dead_leader_hides_only_its_own_partitions(
    kafka_cluster3: KafkaCluster, database: Database, tmp_path: Path
) -> None:
    topic = unique_name()
    create_topic(
        kafka_cluster3.bootstrap_servers, topic, partitions=3, config={"min.insync.replicas": "1"}, replication_factor=1
    )
    connection = {"bootstrap.servers": kafka_cluster3.bootstrap_servers}
    with watching(kafka_cluster3, tmp_path) as watched:
        sampled = Sampled(database, kafka_cluster3, watched, tmp_path / "lag")
        await sampled.register()
        for number in range(3):
            sampled.commit(connection, Partition(topic, number), 0)
        await sampled.round()
        assert {row.problem for row in await sampled.rows()} == {""}
        frozen = kafka_cluster3.broker(1)
        frozen.pause()
        try:
            began = time.monotonic()
            found = await sampled.round()
            took_s = time.monotonic() - began
            rows = await sampled.rows()
        finally:
            frozen.resume()
            kafka_cluster3.wait_until_complete()
        silent = [row for row in rows if row.problem]
        assert len(silent) == 1
        assert silent[0].as_of_ms is not None
        assert (found.partitions, found.known) == (3, 3), "its last numbers stay"
        assert sampled.lags.report_of(sampled.cluster.name).unanswered == 1
        assert took_s < 10
        await sampled.close()


@pytest.mark.core
def test_a_group_of_a_server_has_its_lag_everywhere(
    kafka: KafkaCluster, cluster: str, served: Serving, fenceline: Fenceline, make_topic: MakeTopic
) -> None:
    """REST, page, metrics and command of one server, and the command without a server."""
    del cluster
    topic, group = make_topic(partitions=2), unique_name("readers")
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    write(connection, topic, records=40)
    consumer = Consumer({**connection, **QUIET, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    wait_for(lambda: (consumer.poll(0.1), consumer.assignment())[1], 30, "partitions")
    consumer.commit(offsets=[TopicPartition(topic, 0, 30), TopicPartition(topic, 1, 0)], asynchronous=False)
    try:
        with served.client() as client:
            path = f"/api/v1/clusters/local/groups/{group}"
            wait_for(lambda: client.get(path).json().get("lag_partitions"), 30, "its offsets")
            first, second = client.get(path).json()["lag_partitions"]
            assert (first["lag_records"], first["end"], second["lag_records"]) == (10, 40, 0)
            listed = "/api/v1/clusters/local/groups"

            def sampled() -> Any:
                (one,) = client.get(listed, params={"search": group, "sort": "lag"}).json()["items"]
                return one["lag"]

            lag = wait_for(sampled, 60, "a sample")
            assert (lag["lag_records"], lag["lag_is_at_least"], lag["partitions"]) == (10, True, 2)
            assert f'fenceline_group_lag_records{{cluster="local",group="{group}"}} 10.0' in client.get("/metrics").text
            html = client.get("/groups/group", params={"cluster": "local", "name": group}).text
            assert f"{topic}-0" in html
        shown = fenceline("groups", group, "--cluster", "local")
        assert shown.returncode == 0, shown.stderr
        assert "lag 10" in shown.stdout
        assert group in fenceline("groups", "--cluster", "local", "--sort", "lag", "--match", group).stdout
        direct = fenceline("groups", group, "--bootstrap-server", kafka.bootstrap_servers, "--json")
        found = orjson.loads(direct.stdout)
        assert found["lag"]["lag_records"] == 10
        assert [(one["end"], one["lag"]["lag_records"]) for one in found["positions"]] == [(40, 10), (0, 0)]
        assert found["lag"]["lag_s"] is None, "one sample has no time"
    finally:
        consumer.close()
