"""The watch between a real broker and a real database: what tasks commit is counted once, whatever dies in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from app.core.clusters.cluster import Cluster
from app.core.wire import file_references
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.products.files.loops.file_watch import FileWatch
from app.products.files.reference_topics import KafkaReferenceTopics
from app.products.files.service import showing
from app.products.files.service.showing import FilesPage
from app.products.files.written_file import FileFilter
from tests.conftest import MakeTopic
from tests.support.control_plane import ControlPlane, PlaneClock
from tests.support.databases import end_sessions
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import create_topic, delete_topics, unique_name
from tests.support.waiting import wait_for_async
from tests.support.written_files import SINK, reference

_DEADLINE_S = 20.0


class Live:
    """A pipeline whose sink topic is on the broker, a task that writes references into it, and watches."""

    def __init__(self, plane: ControlPlane, kafka: KafkaCluster, topic: str) -> None:
        self.plane = plane
        self.topic = topic
        self.producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, **QUIET, "transactional.id": unique_name("tx")}
        )
        self.watches = [self.another_watch()]

    def another_watch(self) -> FileWatch:
        return FileWatch(
            unit_of_work=self.plane.uow,
            topics=KafkaReferenceTopics(environment={}, secrets_dir=None),
            clock=PlaneClock(self.plane),
        )

    def write(self, *numbers: int, commits: bool = True, **fields: Any) -> None:
        """A transaction with a reference to each."""
        self.producer.begin_transaction()
        for number in numbers:
            value = file_references.encode(reference(number, pipeline="flights", **fields))
            self.producer.produce(self.topic, value, key=str(number), partition=number % 2)
        if commits:
            self.producer.commit_transaction(_DEADLINE_S)
        else:
            self.producer.flush(_DEADLINE_S)
            self.producer.abort_transaction(_DEADLINE_S)

    async def page(self) -> FilesPage:
        async with self.plane.uow() as uow:
            return await showing.files_page(
                uow,
                "flights",
                FileFilter(),
                after=None,
                files=100,
                partitions=10,
                checkpoints=10,
                schemas=10,
                now=self.plane.now,
            )

    async def until(self, files: int, *watches: FileWatch) -> FilesPage:
        """Turns until so many files are counted and nothing is behind."""

        async def turned() -> FilesPage | None:
            for watch in watches or self.watches:
                await watch.turn()
            page = await self.page()
            return page if page.totals.total.files == files and page.totals.standing.is_whole else None

        found = await wait_for_async(turned, _DEADLINE_S, f"{files} files")
        assert found is not None
        return found


@pytest.fixture
async def live(plane: ControlPlane, kafka: KafkaCluster, make_topic: MakeTopic) -> AsyncGenerator[Live]:
    topic = make_topic(partitions=2)
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    cluster: Cluster = await plane.registered(brokers, kafka.bootstrap_servers)
    await brokers.close()
    await plane.pipeline("flights", cluster=cluster.name, sink_topic=topic, files=SINK)
    made = Live(plane, kafka, topic)
    initialise(made.producer)
    yield made
    for watch in made.watches:
        await watch.close()


@pytest.fixture
def plane(database: Any) -> ControlPlane:
    return ControlPlane(database, now=datetime.now(UTC))


async def test_committed_references_are_counted_once_and_aborted_ones_never(live: Live) -> None:
    live.write(0, 1, 2)
    live.write(7, 8, commits=False)
    live.write(3, checkpoint=2)
    page = await live.until(4)
    assert {record.file.inputs[0].first_offset for record in page.files.items} == {0, 10, 20, 30}
    assert all(record.file.committed_at is not None for record in page.files.items)
    assert page.totals.standing.notes == ()
    assert [one.checkpoint for one in page.checkpoints] == [2, 1]
    live.write(4)
    await live.until(5)


async def test_two_watches_at_once_count_once(live: Live) -> None:
    live.watches.append(live.another_watch())
    for number in range(0, 30, 3):
        live.write(number, number + 1, number + 2)
        for watch in live.watches:
            await watch.turn()
    page = await live.until(30)
    watch = page.totals.standing.watch
    assert watch is not None
    assert (watch.repeated, watch.strangers) == (0, 0)


async def test_dead_database_sessions_cost_nothing(live: Live, postgres_server_url: str) -> None:
    live.write(0, 1)
    await live.until(2)
    end_sessions(postgres_server_url, live.plane.database.url)
    live.write(2, 3)
    await live.until(4)


async def test_topic_made_anew_is_begun_again_and_said(live: Live, kafka: KafkaCluster) -> None:
    live.write(0, 1)
    await live.until(2)
    delete_topics(kafka.bootstrap_servers, [live.topic])
    create_topic(kafka.bootstrap_servers, live.topic, partitions=2)
    live.write(5, 6)
    page = await live.until(4)
    assert any("recreated" in note for note in page.totals.standing.notes)


async def test_what_is_no_reference_is_told_with_its_place(live: Live, kafka: KafkaCluster) -> None:
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    plain.produce(live.topic, b"hello", partition=0)
    assert plain.flush(_DEADLINE_S) == 0
    live.write(0)
    page = await live.until(1)
    assert any(f"{live.topic}-0 at offset 0" in note for note in page.totals.standing.notes)
