"""What we ask of brokers about transactions, and how one is ended past its producer.

`connection`, `timeout_s` and the errors are those of app/core/clusters/brokers.py. What a broker refuses about one
partition or
id is a `Refused` at its place; a refused act raises UnavailableError, which names the permission that is missing, and
one that nobody answered OutcomeUnknownError.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple, Protocol

from app.core.blocked.facts import GroupFacts, KnownTransaction, OpenTransaction, Partition, PartitionFacts, Refused
from app.core.clusters.brokers import Connection, TopicPartition
from app.core.hanging.search import StableEnd

DEFAULT_TIMEOUT_S = 10.0


class FencedProducer(NamedTuple):
    """Which producer id and epoch a transactional id has now: everybody before them is refused."""

    producer_id: int
    producer_epoch: int


class NotEnded(StrEnum):
    """Why nothing was done. MOVED_ON: the id is at another producer id or epoch by now, or its transaction is decided.

    UNSUPPORTED: these brokers know no request that ends a transaction only at a given epoch (before Kafka 4.0).
    """

    MOVED_ON = "moved_on"
    UNSUPPORTED = "unsupported"


class HeldBackPartitions(NamedTuple):
    """ends: of those whose readers of committed data do not get to the log's end. asked: of how many partitions.

    silent: a sentence for each broker or topic that did not tell.
    """

    ends: dict[Partition, StableEnd]
    asked: int
    silent: tuple[str, ...]


class TransactionBrokers(Protocol):
    async def held_back(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> HeldBackPartitions:
        """Among all partitions that may be seen, internal ones too."""
        ...

    async def partitions_of(
        self, connection: Connection, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[TopicPartition, ...]:
        """Raises NotFoundError if there is no such topic."""
        ...

    async def look_at_partitions(
        self,
        connection: Connection,
        partitions: Collection[TopicPartition],
        *,
        with_waiting: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> list[PartitionFacts]:
        """with_waiting: read what lies behind the last stable offsets, too."""
        ...

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

    async def fences_refused(
        self, connection: Connection, transactional_ids: Collection[str], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, Refused]:
        """What keeps us from describing and fencing which of these ids, by id; empty where nothing does.

        Nothing is changed by asking. One without a `permission` is no refusal: nobody said, and it cannot be known.
        """
        ...

    async def fence(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> FencedProducer:
        """Initialise the id in the place of whoever uses it; what it has open is aborted when this returns."""
        ...

    async def can_end_transactions(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> bool:
        """Whether the id's coordinator knows how to `end_transaction`."""
        ...

    async def end_transaction(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> FencedProducer | NotEnded:
        """Abort what the id has open and refuse its producer from then on, if it is still this one; else do nothing.

        Its coordinator compares and acts at once. To repeat it is safe: what was ended is answered in the same way.
        """
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
