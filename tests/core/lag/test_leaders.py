"""The connection of the samples: topics are asked for when something changes, and a silent leader hides its own."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from app.core.blocked.facts import Refused
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.hanging.brokers import Ends, SearchBrokers, SearchConnection
from app.core.hanging.search import StableEnd
from app.core.lag.loops.leaders import Leaders
from app.kit.errors import ConflictError, UnavailableError
from tests.core.alerts.test_lag_conditions import CLUSTER

FIRST, SECOND = Partition("orders", 0), Partition("orders", 1)


class Brokers:
    kafka_cluster_id = "K"

    def __init__(self) -> None:
        self.there = [FIRST]
        self.topics = self.opened = self.closed = 0
        self.silent: set[Partition] = set()
        self.is_away = False

    @contextmanager
    def open_search(self, connection: Mapping[str, str], *, timeout_s: float) -> Generator[SearchConnection]:
        self.opened += 1
        yield cast(SearchConnection, self)
        self.closed += 1

    def all_partitions(self) -> tuple[Partition, ...]:
        self.topics += 1
        return tuple(self.there)

    def stable_ends(self, partitions: Collection[Partition]) -> Ends:
        if self.is_away:
            raise UnavailableError("no broker answers")
        told = {at: StableEnd(5, 9) for at in partitions if at not in self.silent}
        is_whole = len(told) == len(partitions)
        return Ends(told, () if is_whole else ("broker 2 does not answer",), is_stale=not is_whole)


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def leaders(brokers: Brokers, cluster: Cluster = CLUSTER) -> Leaders:
    return Leaders(cluster, cast(SearchBrokers, brokers))


async def test_one_connection_and_one_question_about_topics_serve_all_rounds(brokers: Brokers) -> None:
    asking = leaders(brokers)
    for _ in range(5):
        assert await asking.ends([FIRST]) == {FIRST: StableEnd(5, 9)}
    assert (brokers.opened, brokers.topics) == (1, 1)
    brokers.there.append(SECOND)
    assert await asking.ends([FIRST, SECOND]) == dict.fromkeys((FIRST, SECOND), StableEnd(5, 9))
    assert (brokers.opened, brokers.topics) == (1, 2)
    await asking.close()
    assert brokers.closed == 1


async def test_deleted_topic_is_reported_and_not_asked_for_each_time(brokers: Brokers) -> None:
    asking = leaders(brokers)
    for _ in range(4):
        await asking.ends([FIRST, SECOND])
    found = await asking.ends([FIRST, SECOND])
    assert found[SECOND] == Refused("", "the topic or partition does not exist")
    assert brokers.topics == 1
    await asking.close()


async def test_silent_leader_is_named_at_its_own_partitions(brokers: Brokers) -> None:
    brokers.there.append(SECOND)
    brokers.silent = {SECOND}
    asking = leaders(brokers)
    found: dict[Partition, Any] = await asking.ends([FIRST, SECOND])
    assert found == {FIRST: StableEnd(5, 9), SECOND: Refused("", "broker 2 does not answer")}
    await asking.close()


async def test_failed_connection_is_made_anew(brokers: Brokers) -> None:
    asking = leaders(brokers)
    brokers.is_away = True
    with pytest.raises(UnavailableError):
        await asking.ends([FIRST])
    brokers.is_away = False
    assert await asking.ends([FIRST]) == {FIRST: StableEnd(5, 9)}
    assert (brokers.opened, brokers.closed) == (2, 1)
    await asking.close()


async def test_another_cluster_at_the_address_is_refused(brokers: Brokers) -> None:
    brokers.kafka_cluster_id = "another"
    asking = leaders(brokers)
    with pytest.raises(ConflictError):
        await asking.ends([FIRST])
    await asking.close()
