"""What the jobs are about: blocked readers, a fenced producer, pipelines, records, another user's session."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import Site
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.transactions import producer
from tests.support.waiting import wait_for

TIMEOUT_S = 30.0
_OLD_ENOUGH_S = 12.0
"""A fence of a younger transaction has objections."""


class Blocked(NamedTuple):
    """A reader of `group` that waits in each partition of `topic`, by the open transaction of `ids` with its number."""

    topic: str
    group: str
    ids: tuple[str, ...]


@contextmanager
def blocked_readers(site: Site, topic: str, count: int) -> Generator[Blocked]:
    """One open transaction in each of `count` partitions, old enough to be fenced, and a group that reads them."""
    connection = {"bootstrap.servers": site.bootstrap_servers}
    ids = tuple(unique_name("payments") for _ in range(count))
    group = unique_name("billing")
    writers: list[Producer] = []
    for partition, name in enumerate(ids):
        writer = producer(connection, name, **{"transaction.timeout.ms": "600000"})
        writer.begin_transaction()
        writer.produce(topic, b"undecided", partition=partition)
        assert writer.flush(TIMEOUT_S) == 0
        writers.append(writer)
    opened = time.monotonic()
    consumer = Consumer({**connection, **QUIET, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        wait_for(lambda: (consumer.poll(0.1), consumer.assignment())[1], TIMEOUT_S, f"partitions of {topic}")
        begins = [TopicPartition(topic, number, 0) for number in range(count)]
        consumer.commit(offsets=begins, asynchronous=False)
        wait_for(lambda: time.monotonic() - opened > _OLD_ENOUGH_S, 2 * _OLD_ENOUGH_S, "transactions of some age")
        yield Blocked(topic, group, ids)
    finally:
        consumer.close()
        del writers


def pipeline_of(site: Site, make_topic: MakeTopic, prefix: str, *, source: str = "", **fields: Any) -> str:
    """A pipeline that has never run."""
    name = unique_name(prefix)
    definition = {
        "cluster": site.cluster,
        "source_topics": [source or make_topic()],
        "group_id": name,
        "sink_topic": make_topic(),
        "transform": {"kind": "identity"},
        **fields,
    }
    site.server.create_pipeline(name, definition)
    return name


def keep_if(field: str) -> Mapping[str, Any]:
    """A transform that keeps delays of 15 and more."""
    return {"kind": "steps", "steps": [{"op": "filter", "field": field, "operator": "ge", "value": 15}]}


def revise(page: Page, name: str) -> None:
    """A second revision, with another commit interval."""
    page.goto(f"/pipelines/{name}/edit")
    page.get_by_label("Commit interval").fill("250")
    page.get_by_role("button", name="Save as a new revision").click()
    page.wait_for_url(re.compile(f"/pipelines/{name}"))


def write_flights(site: Site, topic: str) -> None:
    """Three records, of which two are delayed by 15 minutes or more."""
    writer = producer({"bootstrap.servers": site.bootstrap_servers})
    for number, delay in enumerate((20, 90, 3)):
        writer.produce(topic, json.dumps({"id": number, "arr_delay": delay}), key=f"flight-{number}")
    assert writer.flush(TIMEOUT_S) == 0


def write_days(site: Site, topic: str, group: str) -> None:
    """A record for each of five days, all of them read by the group."""
    writer = producer({"bootstrap.servers": site.bootstrap_servers})
    for days in range(5):
        at = datetime.now(UTC) - timedelta(days=4.5 - days)
        writer.produce(topic, b"x", partition=0, timestamp=int(at.timestamp() * 1000))
    assert writer.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": site.bootstrap_servers, **QUIET, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    consumer.close()


def write_orders(site: Site, topic: str) -> None:
    """300 records with the keys order-0 to order-299 in three partitions."""
    writer = producer({"bootstrap.servers": site.bootstrap_servers})
    for number in range(300):
        writer.produce(topic, json.dumps({"id": number}), key=f"order-{number}", partition=number % 3)
    assert writer.flush(TIMEOUT_S) == 0


@contextmanager
def other_user(site: Site, page: Page) -> Generator[tuple[str, Page]]:
    """The name of a viewer, and the viewer's window, logged in by a token that the administrator made."""
    name = unique_name("visitor")
    page.goto("/tokens")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Create the token").click()
    secret = page.locator(".notice .id span").first.inner_text()
    with site.visitor() as visitor:
        yield name, _logged_in(visitor, secret)


def _logged_in(visitor: BrowserContext, secret: str) -> Page:
    window = visitor.new_page()
    window.goto("/login")
    window.get_by_label("Token").fill(secret)
    window.get_by_role("button", name="Log in").click()
    expect(window.get_by_role("navigation", name="Main")).to_be_visible()
    return window


def overview_with(page: Page, row: Locator) -> None:
    """Show the overview once the row is on it; without JavaScript it is loaded again until then."""

    def is_there() -> bool:
        page.goto("/")
        return row.count() > 0

    wait_for(is_there, 2 * TIMEOUT_S, lambda: f"{row} on the overview: {page.get_by_role('main').inner_text()[:500]}")
