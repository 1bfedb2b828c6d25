"""The page that resets offsets: the preview first, then what it showed, with a reason, while nothing runs."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import httpx
import pytest
from confluent_kafka import Producer

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.conftest import MakeTopic
from tests.support.control_plane import ControlPlane
from tests.support.topics import unique_name
from tests.support.wiring import browser_of

PAGE = "/pipelines/flights/reset-offsets"


class Site:
    """A stopped pipeline `flights`; its group has read 4 of 10 records, and none of 5 in partition 1."""

    def __init__(self, wiring: Wiring, plane: ControlPlane, cluster: Cluster, topic: str, group: str) -> None:
        self.wiring = wiring
        self.plane = plane
        self.cluster = cluster
        self.topic = topic
        self.group = group

    async def committed(self) -> dict[Partition, int]:
        return dict(await self.wiring.brokers.committed_offsets(self.cluster.connection(), self.group))


@pytest.fixture
async def site(wiring: Wiring, database: Database, kafka: KafkaCluster, make_topic: MakeTopic) -> Site:
    plane, topic, group = ControlPlane(database), make_topic(partitions=2), unique_name("g")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition, count in ((0, 10), (1, 5)):
        for number in range(count):
            producer.produce(topic, b"x", partition=partition, timestamp=1_000_000_000_000 + 60_000 * number)
    assert producer.flush(20) == 0
    cluster = await plane.registered(wiring.brokers, kafka.bootstrap_servers)
    await wiring.brokers.alter_offsets(cluster.connection(), group, {Partition(topic, 0): 4})
    await plane.pipeline(cluster="real", source_topics=(topic,), sink_topic=make_topic(), group_id=group)
    return Site(wiring, plane, cluster, topic, group)


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    """An operator's."""
    async with browser_of(wiring, Role.OPERATOR) as made:
        yield made


def words_of(answer: httpx.Response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def form_of(answer: httpx.Response) -> dict[str, str]:
    """The hidden fields of the form that resets."""
    form = answer.text[answer.text.index('id="reset"') :]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))


async def test_preview_says_what_happens_to_outputs_and_the_reset_does_that(
    site: Site, browser: httpx.AsyncClient
) -> None:
    shown = await browser.get(PAGE, params={"kind": "timestamp", "at": "2001-09-09T01:48"})
    assert "Up to 2 records of 1 partition are read again: their outputs will be written twice." in words_of(shown)
    assert "1 partition without a committed offset: up to 3 records are there to be read." in words_of(shown)
    assert await site.committed() == {Partition(site.topic, 0): 4}
    without = await browser.post(PAGE, data=form_of(shown))
    assert without.status_code == 422
    assert "a reset of the offsets of flights needs a reason" in without.text
    done = await browser.post(PAGE, data={**form_of(shown), "why": "a bad transform"})
    assert (done.status_code, done.headers["location"]) == (303, "/pipelines/flights?said=offsets-set")
    assert await site.committed() == {Partition(site.topic, 0): 2, Partition(site.topic, 1): 2}
    async with site.plane.uow() as uow:
        command = (
            await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=1)
        ).items[0]
    assert (command.verb, command.why) == ("reset_offsets", "a bad transform")


async def test_named_offsets_move_alone_and_skipped_records_are_told(site: Site, browser: httpx.AsyncClient) -> None:
    named = f"{site.topic}:0=9\n"
    shown = await browser.get(PAGE, params={"kind": "offsets", "named": named})
    assert "Up to 5 records of 1 partition are skipped: they are never processed, without any output." in words_of(
        shown
    )
    done = await browser.post(PAGE, data={**form_of(shown), "why": "poison"})
    assert done.status_code == 303
    assert await site.committed() == {Partition(site.topic, 0): 9}


async def test_a_preview_that_is_out_of_date_changes_nothing(site: Site, browser: httpx.AsyncClient) -> None:
    shown = await browser.get(PAGE, params={"kind": "latest"})
    await site.wiring.brokers.alter_offsets(site.cluster.connection(), site.group, {Partition(site.topic, 0): 6})
    refused = await browser.post(PAGE, data={**form_of(shown), "why": "skip"})
    assert refused.status_code == 412
    assert "check a new preview first" in refused.text
    assert form_of(refused)["expected"] == f"{site.topic}:0=6 {site.topic}:1="
    assert await site.committed() == {Partition(site.topic, 0): 6}


async def test_while_a_run_lives_there_is_a_preview_and_no_reset(site: Site, browser: httpx.AsyncClient) -> None:
    await site.plane.run()
    shown = await browser.get(PAGE, params={"kind": "earliest"})
    assert "Up to 4 records of 1 partition are read again" in words_of(shown)
    assert 'id="reset"' not in shown.text
    assert "drain it first" in words_of(shown)
    refused = await browser.post(PAGE, data={"kind": "earliest", "expected": "", "why": "go"})
    assert refused.status_code == 409
    assert await site.committed() == {Partition(site.topic, 0): 4}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"kind": "timestamp", "at": "yesterday"}, "yesterday is not a time: 2026-01-31T14:03"),
        ({"kind": "timestamp"}, "nothing is not a time"),
        ({"kind": "offsets", "named": "orders=3"}, "orders=3 is not of the form TOPIC:PARTITION=OFFSET"),
        ({"kind": "offsets", "named": "orders:0=²"}, "is not of the form"),
        ({"kind": "offsets", "named": ""}, "name at least one partition and its next offset"),
        ({"kind": "offsets", "named": "other:0=1"}, "other-0 is not a partition of the pipeline"),
        ({"kind": "recorded"}, "no committed offset of these topics is recorded"),
    ],
)
async def test_a_target_that_cannot_be_is_told_in_place_of_the_preview(
    site: Site, browser: httpx.AsyncClient, asked: dict[str, str], said: str
) -> None:
    shown = await browser.get(PAGE, params=asked)
    assert shown.status_code == 200
    assert said in words_of(shown)
    assert 'id="changes"' not in shown.text


async def test_a_damaged_form_is_refused(site: Site, browser: httpx.AsyncClient) -> None:
    refused = await browser.post(PAGE, data={"kind": "earliest", "expected": "orders", "why": "go"})
    assert refused.status_code == 422
    assert "the preview of this form is damaged" in refused.text
    assert await site.committed() == {Partition(site.topic, 0): 4}


async def test_who_may_not_reset_sees_no_page(site: Site, wiring: Wiring) -> None:
    del site
    async with browser_of(wiring, Role.VIEWER) as viewer:
        assert (await viewer.get(PAGE)).status_code == 403
