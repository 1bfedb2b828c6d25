"""Topics and their records in a browser: from the cluster to a record, its outcome, and its place in the log."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible, assert_fits
from tests.support.topics import unique_name
from tests.support.transactions import producer, take_over

HOSTILE = "<img src=x onerror=alert(1)>"


def test_a_record_is_found_by_a_field_and_its_outcome_is_read(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic, name = make_topic(partitions=3, prefix="orders"), unique_name("payments")
    connection = {"bootstrap.servers": site.bootstrap_servers}
    writer = producer(connection)
    for number in range(60):
        value = (
            f'{{"id": {number}, "customer": {{"name": "Ada", "city": "Bergen"}}, "lines": [1, 2, 3], "total": 10.50}}'
        )
        writer.produce(topic, value, key=f"order-{number}", partition=number % 3, headers={"trace": f"t{number}"})
    writer.produce(topic, HOSTILE, key=b"\xff\x00\x01", partition=1)
    writer.produce(topic, "y" * 50_000, partition=2)
    assert writer.flush(30) == 0
    clients = take_over(connection, topic, name)

    page.goto("/clusters")
    page.locator(f"#cluster-{site.cluster}").get_by_role("link", name="Topics").click()
    page.get_by_label("Search").fill(topic)
    page.get_by_role("button", name="Show").click()
    row = page.locator(f"#topic-{topic}")
    expect(row.locator("td[data-label=Partitions]")).to_have_text("3")
    expect(row).to_contain_text("to review")
    assert_accessible(page, what="the list of topics")
    site.picture(page, "topics", height=700)

    row.get_by_role("link", name=topic).click()
    expect(page.locator("#review")).to_contain_text("has one replica")
    expect(page.locator("#partitions tbody tr")).to_have_count(3)
    expect(page.locator("dl.stat", has_text="Blocked").locator("dd").first).to_have_text("1")
    assert_accessible(page, what="a topic")
    site.picture(page, "topic", height=1_400)

    page.get_by_role("link", name="Records", exact=True).click()
    expect(page.locator("#records tbody tr")).to_have_count(50)
    expect(page.locator("#records")).to_contain_text("aborted")
    expect(page.locator("#records")).to_contain_text("open")
    expect(page.locator("#records")).to_contain_text(HOSTILE)
    expect(page.locator("#records")).to_contain_text("ff 00 01")
    assert_accessible(page, what="the records of a topic")
    site.picture(page, "records", height=1_600)
    page.get_by_label("From").fill("start")
    page.get_by_label("Value").fill("id = 7")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#records tbody tr")).to_have_count(1)
    expect(page.get_by_text("64 records read, 1 match")).to_be_visible()
    page.locator("#records summary").click()
    expect(page.locator("#records pre")).to_contain_text('"total": 10.50')
    site.picture(page, "record", height=900)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON lines").click()
    assert download.value.suggested_filename == f"{topic}.jsonl"
    assert len(download.value.path().read_text().splitlines()) == 1

    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    for what, path in (("topics", f"?search={topic}"), ("topic", f"/{topic}"), ("records", f"/{topic}/records")):
        page.goto(f"/clusters/{site.cluster}/topics{path}")
        assert_fits(page, what=f"{what} on a phone")
        site.picture(page, f"{what}-phone", height=2_000)
    assert_accessible(page, what="records on a phone")
    page.emulate_media(color_scheme="dark")
    site.picture(page, "records-dark", height=1_200)
    # The place of a record in the log is one click away.
    page.locator("#records th a").last.click()
    page.wait_for_url(re.compile(rf"/clusters/{site.cluster}/log/{topic}/\d\?from=\d+"))
    page.goto("/commands")
    expect(page.locator("#commands")).to_contain_text("filtered by value")
    expect(page.locator("#commands")).to_contain_text("downloaded at most 10,000 records")
    del clients
