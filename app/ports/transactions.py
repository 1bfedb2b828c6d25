"""What we ask of brokers about transactions, and how one is ended past its producer.

`connection`, `timeout_s` and the errors are those of app/ports/brokers.py. What a broker refuses about one partition or
id is a `Refused` at its place; a refused act raises UnavailableError, which names the permission that is missing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from app.domain.stuck.facts import GroupFacts, KnownTransaction, OpenTransaction, PartitionFacts, Refused
from app.ports.brokers import Connection, TopicPartition

DEFAULT_TIMEOUT_S = 10.0


class FencedProducer(NamedTuple):
    """Which producer id and epoch a transactional id has now: everybody before them is refused."""

    producer_id: int
    producer_epoch: int


class TransactionBrokers(Protocol):
    async def partitions_of(
        self, connection: Connection, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[TopicPartition, ...]:
        """Raises NotFoundError if there is no such topic."""
        ...

    async def look_at_partitions(
        self, connection: Connection, partitions: Collection[TopicPartition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> list[PartitionFacts]: ...

    async def look_at_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupFacts:
        """Raises NotFoundError if there is no such group."""
        ...

    async def describe_transaction(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> KnownTransaction | Refused | None:
        """None: its coordinator does not know it."""
        ...

    async def fence(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> FencedProducer:
        """Initialise the id in the place of whoever uses it; what it has open is aborted when this returns."""
        ...

    async def write_abort_marker(
        self,
        connection: Connection,
        at: TopicPartition,
        target: OpenTransaction,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """End what a producer has open in one partition, past its coordinator."""
        ...
