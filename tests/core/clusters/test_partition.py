"""A partition is written as Kafka's tools write it, and equals the plain tuple that paths of records use."""

from __future__ import annotations

from app.core.clusters.partition import Partition


def test_partition_is_written_with_a_dash() -> None:
    assert f"{Partition('orders', 3)}" == "orders-3"


def test_partition_and_its_plain_tuple_are_one_key() -> None:
    assert {Partition("orders", 3): 7}.get(("orders", 3)) == 7  # pyright: ignore[reportCallIssue, reportArgumentType]
