"""A start that is refused since the group has lost its offsets, its three buttons, and a reset with a preview."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.main.products import PARTS
from tests.conftest import MakeTopic
from tests.support.browser import NARROW, assert_accessible, assert_fits, visitor_of
from tests.support.control_plane import ControlPlane
from tests.support.databases import create_database, drop_database
from tests.support.live_application import LiveApplication, live_application
from tests.support.topics import unique_name

RECORDED, END = 7, 10


@pytest.fixture
def topic(kafka: KafkaCluster, make_topic: MakeTopic) -> str:
    """One partition of END records."""
    name = make_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(END):
        producer.produce(name, b"x")
    assert producer.flush(20) == 0
    return name


@pytest.fixture
def live(
    kafka: KafkaCluster,
    topic: str,
    make_topic: MakeTopic,
    postgres_server_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[LiveApplication]:
    """A stopped pipeline `flights` whose group has no offset where RECORDED was confirmed; no loop starts its runs."""
    database_url = create_database(postgres_server_url)
    database = Database(database_url, parts=PARTS)

    async def begin(wiring: Wiring) -> None:
        plane = ControlPlane(database, now=wiring.clock.now())
        cluster = await plane.registered(wiring.brokers, kafka.bootstrap_servers)
        group = unique_name("g")
        await plane.pipeline(cluster="real", source_topics=(topic,), sink_topic=make_topic(), group_id=group)
        async with plane.uow() as uow:
            await uow.of(RecordedOffsetStore).replace(
                [RecordedOffset(topic=topic, partition=0, offset=RECORDED)],
                pipeline="flights",
                kafka_cluster_id=cluster.kafka_cluster_id,
                group=group,
                now=plane.now,
            )
            await uow.commit()

    async def close(_: Wiring) -> None:
        await database.close()

    try:
        with live_application(database_url, tmp_path_factory.mktemp("forgotten")) as made:
            try:
                made.do(begin)
                yield made
            finally:
                made.do(close)
    finally:
        drop_database(postgres_server_url, database_url)


@pytest.fixture
def window(live: LiveApplication, browser: Browser) -> Generator[Page]:
    with visitor_of(browser, live.url) as visitor:
        page = visitor.new_page()
        page.goto("/login")
        page.get_by_label("Token").fill(live.token)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{live.url}/")
        yield page


def press(page: Page, verb: str, label: str, why: str) -> None:
    """Open the form of an action, give the reason, and send it."""
    action = page.locator(f"#act-{verb}")
    action.locator("summary").click()
    action.get_by_label("Reason").fill(why)
    action.get_by_role("button", name=label, exact=True).click()


def committed(live: LiveApplication, topic: str) -> int | None:
    async def ask(wiring: Wiring) -> int | None:
        async with wiring.unit_of_work() as uow:
            cluster, pipeline = await uow.of(ClusterStore).get("real"), await uow.of(PipelineStore).get("flights")
        found = await wiring.brokers.committed_offsets(cluster.connection(), pipeline.definition.group_id)
        return found.get(Partition(topic, 0))

    return live.do(ask)


@pytest.mark.parametrize(
    ("verb", "label", "offset"),
    [
        ("resume-recorded", "Resume at the recorded offsets", RECORDED),
        ("begin-earliest", "Start at the earliest offset", 0),
        ("begin-latest", "Start at the latest offset", END),
    ],
)
def test_each_button_of_a_refused_start_sets_the_offsets_and_the_start_goes_through(
    window: Page, live: LiveApplication, topic: str, verb: str, label: str, offset: int
) -> None:
    window.goto("/pipelines/flights")
    press(window, "start", "Start", "go")
    refusal = window.get_by_role("alert")
    expect(refusal).to_contain_text(f"{topic}-0 was committed at {RECORDED} or later and would begin at 0")
    expect(refusal.locator("summary")).to_have_count(3)
    refusal.locator("summary").first.click()
    assert_accessible(window, what="the refused start")
    window.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_fits(window, what="the refused start on a phone")
    refusal.locator("summary").first.click()
    assert committed(live, topic) is None

    press(window, verb, label, "")
    expect(window.get_by_role("alert")).to_contain_text("a reset of the offsets of flights needs a reason")
    assert committed(live, topic) is None
    window.goto("/pipelines/flights")
    press(window, "start", "Start", "go")
    press(window, verb, label, "the group expired")
    expect(window.get_by_text("The offsets are set. Start the pipeline now.")).to_be_visible()
    assert committed(live, topic) == offset

    press(window, "start", "Start", "go")
    expect(window.locator("[data-said]")).to_contain_text("Start")
    window.goto("/commands")
    expect(window.get_by_text("the group expired")).to_be_visible()


def test_offsets_go_back_by_a_day_in_four_clicks_and_a_reason(window: Page, live: LiveApplication, topic: str) -> None:
    window.goto("/pipelines/flights")
    window.get_by_role("link", name="Offsets", exact=True).click()
    window.get_by_role("link", name="Reset offsets").click()
    window.get_by_label("To", exact=True).select_option("offsets")
    window.get_by_label("Offsets", exact=True).fill(f"{topic}:0={END}")
    window.get_by_role("button", name="Show the preview").click()
    window.get_by_label("Reason").fill("begin behind the old records")
    window.get_by_role("button", name="Reset the offsets").click()
    expect(window.get_by_text("The offsets are set. Start the pipeline now.")).to_be_visible()
    assert committed(live, topic) == END

    window.get_by_role("link", name="Offsets", exact=True).click()
    window.get_by_role("link", name="Reset offsets").click()
    window.get_by_role("link", name="1 day back").click()
    expect(window.locator("main")).to_contain_text(f"Up to {END} records of 1 partition are read again")
    assert_accessible(window, what="the preview of a reset")
    window.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_fits(window, what="the preview of a reset on a phone")
    assert committed(live, topic) == END
    window.get_by_label("Reason").fill("a bad transform")
    window.get_by_role("button", name="Reset the offsets").click()
    expect(window.get_by_text("The offsets are set. Start the pipeline now.")).to_be_visible()
    assert committed(live, topic) == 0
