"""A start that is refused since the group has lost its offsets: the page, the API, and the next steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest
from confluent_kafka import Producer

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.clusters.partition import Partition
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.conftest import MakeTopic
from tests.support.control_plane import ControlPlane
from tests.support.topics import unique_name
from tests.support.wiring import browser_of


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    """An operator's."""
    async with browser_of(wiring, Role.OPERATOR) as made:
        yield made


async def test_a_refused_start_offers_its_ways_out_and_each_takes_a_reason(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    plane, topic, group = ControlPlane(database), make_topic(), unique_name("g")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(10):
        producer.produce(topic, b"x")
    assert producer.flush(20) == 0
    cluster = await plane.registered(wiring.brokers, kafka.bootstrap_servers)
    await plane.pipeline(cluster="real", source_topics=(topic,), sink_topic=make_topic(), group_id=group)
    async with plane.uow() as uow:
        await uow.of(RecordedOffsetStore).replace(
            [RecordedOffset(topic=topic, partition=0, offset=7)],
            pipeline="flights",
            kafka_cluster_id=cluster.kafka_cluster_id,
            group=group,
            now=plane.now,
        )
        await uow.commit()
    refused = await browser.post("/pipelines/flights/start", data={"why": "go"})
    assert refused.status_code == 409
    assert (
        f"{topic}-0 was committed at 7 or later and would begin at 0 (at least 7 offsets processed again)"
        in refused.text
    )
    assert refused.text.count('action="/pipelines/flights/reset-offsets"') == 3
    assert 'value="recorded"' in refused.text
    for kind in ("recorded", "earliest", "latest"):
        without = await browser.post("/pipelines/flights/reset-offsets", data={"kind": kind})
        assert without.status_code == 422
        assert "a reset of the offsets of flights needs a reason" in without.text
    connection = cluster.connection()
    assert await wiring.brokers.committed_offsets(connection, group) == {}
    done = await browser.post("/pipelines/flights/reset-offsets", data={"kind": "recorded", "why": "it expired"})
    assert (done.status_code, done.headers["location"]) == (303, "/pipelines/flights?said=offsets-set")
    assert await wiring.brokers.committed_offsets(connection, group) == {Partition(topic, 0): 7}
    started = await browser.post("/pipelines/flights/start", data={"why": "go"})
    assert started.headers["location"].endswith("said=started")
    async with plane.uow() as uow:
        commands = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=5)
    assert [(one.verb, one.why) for one in commands.items] == [("start_run", "go"), ("reset_offsets", "it expired")]
