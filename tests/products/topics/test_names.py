"""The list of topics is at most ten seconds old, and a list in use is read again before a page would wait for it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.topic import ListedTopic
from app.kit.errors import UnavailableError
from app.products.topics.service.topics import TopicNames

CLUSTER = Cluster(
    name="c",
    kafka_cluster_id="k",
    bootstrap_servers="nowhere:1",
    client_config={},
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    created_by="anna",
)


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Listing:
    """Brokers whose list has one topic more with each question; they answer when they are released."""

    def __init__(self) -> None:
        self.asked = 0
        self.released = asyncio.Event()
        self.released.set()
        self.is_away = False

    async def list_topics(self, _: object) -> tuple[ListedTopic, ...]:
        self.asked += 1
        found = tuple(ListedTopic(f"t{number}", 1, 1, False) for number in range(self.asked))
        await self.released.wait()
        if self.is_away:
            raise UnavailableError("no broker answers")
        return found


async def found(names: TopicNames) -> int:
    """The number of topics. Fails if it waits for brokers that do not answer."""
    return len(await asyncio.wait_for(names.of(CLUSTER), 5))


async def _background() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_list_in_use_is_read_again_in_the_background() -> None:
    clock, brokers = Clock(), Listing()
    names = TopicNames(cast(Brokers, brokers), clock)
    assert await found(names) == 1
    clock.at += timedelta(seconds=7)
    assert (await found(names), brokers.asked) == (1, 1)
    clock.at += timedelta(seconds=2)
    brokers.released.clear()
    assert await found(names) == 1
    await _background()
    assert (await found(names), brokers.asked) == (1, 2), "one question at a time"
    brokers.released.set()
    await _background()
    clock.at += timedelta(seconds=7)
    assert (await found(names), brokers.asked) == (2, 2)


async def test_a_list_that_is_too_old_is_read_before_the_answer_and_errors_are_reported() -> None:
    clock, brokers = Clock(), Listing()
    names = TopicNames(cast(Brokers, brokers), clock)
    assert await found(names) == 1
    clock.at += timedelta(seconds=8.5)
    brokers.is_away = True
    assert await found(names) == 1
    await _background()
    clock.at += timedelta(seconds=2)
    with pytest.raises(UnavailableError):
        await found(names)
    brokers.is_away = False
    assert await found(names) == 4
