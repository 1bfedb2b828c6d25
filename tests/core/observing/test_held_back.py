"""Blocked records: counted from two answers, without waiting views, and without records in progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from app.core.clusters.brokers import Brokers, PartitionOffsets
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.observing.service.held_back import HeldBack
from app.kit.errors import UnavailableError

AT = Partition("orders", 0)
CLUSTER = Cluster(
    name="c",
    kafka_cluster_id="kafka-1",
    bootstrap_servers="127.0.0.1:1",
    created_at=datetime.fromtimestamp(0, UTC),
    created_by="somebody",
)


class Asked:
    """Brokers with one partition; `ends` are its last stable offset and its high watermark."""

    def __init__(self) -> None:
        self.ends = (0, 0)
        self.asked = 0
        self.now_s = 100.0
        self.is_away = False
        self.held = HeldBack(monotonic=lambda: self.now_s)

    async def offsets_of_each(
        self, connection: Mapping[str, str], partitions: Collection[Partition], **_: Any
    ) -> dict[Partition, PartitionOffsets]:
        self.asked += 1
        if self.is_away:
            raise UnavailableError("no broker answers")
        last_stable, end = self.ends
        return {at: PartitionOffsets(earliest=0, last_stable=last_stable, high_watermark=end) for at in partitions}

    async def look(self, *, ends: tuple[int, int] | None = None, after_s: float = 1.0) -> Mapping[Partition, int]:
        """The count of a view after the answer to the previous view."""
        self.ends = ends or self.ends
        self.now_s += after_s
        self.held.of(cast(Brokers, self), CLUSTER, [AT])
        await self.held.settled()
        return self.held.of(cast(Brokers, self), CLUSTER, [AT])


@pytest.fixture
def asked() -> Asked:
    return Asked()


async def test_records_behind_the_lso_since_the_previous_view_are_blocked(asked: Asked) -> None:
    assert await asked.look(ends=(10, 15)) == {}
    assert await asked.look(ends=(10, 18)) == {AT: 5}
    assert await asked.look(ends=(18, 18)) == {AT: 0}


async def test_records_in_progress_are_not_blocked(asked: Asked) -> None:
    for written in range(3):
        # Whoever writes between the two questions of an answer makes them differ.
        assert await asked.look(ends=(100 * written, 100 * written + 7)) in ({}, {AT: 0})


async def test_recreated_topic_has_no_blocked_records_of_the_old_one(asked: Asked) -> None:
    await asked.look(ends=(5_000, 5_000))
    assert await asked.look(ends=(0, 0)) == {AT: 0}
    assert await asked.look(ends=(2, 6)) == {AT: 0}
    assert await asked.look(ends=(2, 7)) == {AT: 4}


async def test_many_views_in_a_second_make_one_request(asked: Asked) -> None:
    for _ in range(10):
        await asked.look(after_s=0.09)
    assert asked.asked == 1


async def test_unreachable_brokers_are_not_asked_for_a_while(asked: Asked) -> None:
    await asked.look(ends=(1, 2))
    assert await asked.look() == {AT: 1}
    asked.is_away = True
    assert await asked.look() == {}
    assert await asked.look() == {}
    assert asked.asked == 3
    asked.is_away = False
    await asked.look(after_s=5)
    assert await asked.look() == {AT: 1}


async def test_old_answers_are_not_shown(asked: Asked) -> None:
    await asked.look(ends=(1, 2))
    assert await asked.look() == {AT: 1}
    asked.now_s += 60
    assert asked.held.of(cast(Brokers, asked), CLUSTER, [AT]) == {}
    await asked.held.close()
