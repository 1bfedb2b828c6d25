"""One search of a cluster without a running search: its results and its limits."""

from __future__ import annotations

from collections.abc import Collection
from unittest.mock import create_autospec

import msgspec

from app.core.blocked.brokers import HeldBackPartitions, TransactionBrokers
from app.core.blocked.facts import PartitionFacts
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.hanging.report import SearchReport
from app.core.hanging.search import StableEnd
from app.core.hanging.search_once import search_once
from tests.core.blocked.answers import held

CONNECTION = {"bootstrap.servers": "b1:9092"}


async def searched(*, held_back: int, limit: int) -> SearchReport:
    """Every blocked partition has a transaction that no coordinator knows."""
    there = {Partition("orders", number): StableEnd(10, 14) for number in range(held_back)}

    async def look(
        _: Connection, partitions: Collection[Partition], *, with_waiting: bool, timeout_s: float
    ) -> list[PartitionFacts]:
        assert (with_waiting, timeout_s > 0) == (False, True)
        return [msgspec.structs.replace(held(None), partition=at.partition) for at in partitions]

    brokers = create_autospec(TransactionBrokers, instance=True)
    brokers.held_back.return_value = HeldBackPartitions(there, 50, ("broker 2 does not answer",))
    brokers.look_at_partitions.side_effect = look
    return await search_once(brokers, CONNECTION, now_ms=1_000, limit=limit)


async def test_hanging_transactions_are_found_in_one_search() -> None:
    report = await searched(held_back=2, limit=10)
    assert [one.at for one in report.hanging] == [Partition("orders", 0), Partition("orders", 1)]
    assert (report.partitions, report.held_back, report.asked) == (50, 2, 2)
    assert report.silent == ("broker 2 does not answer",)


async def test_unchecked_partitions_are_reported() -> None:
    report = await searched(held_back=5, limit=3)
    assert len(report.hanging) == 3
    assert report.silent[-1] == "2 more partitions are blocked and were not checked"


async def test_no_leader_is_asked_without_blocked_partitions() -> None:
    assert (await searched(held_back=0, limit=3)).asked == 0
