"""Requests to brokers about transactions, two requests that end one instead of its producer, and one that removes a
member from its group.

`connection`, `timeout_s` and the errors are those of app/core/clusters/brokers.py. An error of one partition or id is a
`Refused` in its place. A refused change raises UnavailableError, which names the missing permission. A change without
an answer raises OutcomeUnknownError.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from app.core.blocked.facts import GroupFacts, KnownTransaction, OpenTransaction, PartitionFacts, Refused
from app.core.blocked.stretch import LogStretch
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.hanging.search import StableEnd

DEFAULT_TIMEOUT_S = 10.0


class FencedProducer(NamedTuple):
    """The new producer id and epoch of a transactional id. Older producers are fenced."""

    producer_id: int
    producer_epoch: int


class NotEnded(StrEnum):
    """The reason for which nothing was changed.

    MOVED_ON: the id has another producer id or epoch, or its transaction is complete.
    UNSUPPORTED: the brokers, older than Kafka 4.0, have no request that ends a transaction only at a given epoch.
    """

    MOVED_ON = "moved_on"
    UNSUPPORTED = "unsupported"


class HeldBackPartitions(NamedTuple):
    """ends: of the partitions with an LSO below the high watermark. asked: the number of partitions.

    `silent`: one sentence for each broker or topic that did not answer.
    """

    ends: dict[Partition, StableEnd]
    asked: int
    silent: tuple[str, ...]


class TransactionBrokers(Protocol):
    async def held_back(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> HeldBackPartitions:
        """Return blocked partitions of all visible topics, including internal ones."""
        ...

    async def partitions_of(
        self, connection: Connection, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[Partition, ...]:
        """Raise NotFoundError if the topic does not exist."""
        ...

    async def look_at_partitions(
        self,
        connection: Connection,
        partitions: Collection[Partition],
        *,
        with_waiting: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> list[PartitionFacts]:
        """with_waiting: also read the records behind the last stable offsets."""
        ...

    async def stretches(
        self,
        connection: Connection,
        spans: Mapping[Partition, tuple[int, int]],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[Partition, LogStretch]:
        """Read the log of each partition from the first offset up to the second. Partitions that may not be read are
        left out.
        """
        ...

    async def look_at_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupFacts:
        """Raise NotFoundError if the group does not exist."""
        ...

    async def describe_transaction(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> KnownTransaction | Refused | None:
        """Return None if its coordinator does not know the id."""
        ...

    async def fences_refused(
        self, connection: Connection, transactional_ids: Collection[str], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, Refused]:
        """Return, by id, the missing permission to describe or to fence; empty if all are permitted.

        The request changes nothing. An entry without a `permission` is not a refusal: the brokers did not answer.
        """
        ...

    async def fence(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> FencedProducer:
        """Initialise the id in place of its current producer. Its open transaction is aborted when this returns."""
        ...

    async def can_end_transactions(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> bool:
        """Return True if the id's coordinator supports `end_transaction`."""
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
        """Abort the id's open transaction and fence its producer, if it is still this one; else change nothing.

        The coordinator compares and ends in one step. A repetition is safe: it gets the same answer.
        """
        ...

    async def is_member(
        self, connection: Connection, group: str, member_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> bool:
        """Return whether the group has a member with this id; False if there is no such group."""
        ...

    async def remove_member(
        self,
        connection: Connection,
        group: str,
        member_id: str,
        *,
        reason: str = "",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> bool:
        """Remove a dynamic member from a classic or KIP-848 group; False if the group has no such member.

        Its partitions get other owners at once. A living member's next request is refused, and it joins again: with a
        new id in a classic group, with the same one under KIP-848. reason: for the coordinator's log (KIP-800).
        """
        ...

    async def write_abort_marker(
        self,
        connection: Connection,
        at: Partition,
        target: OpenTransaction,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """End a producer's open transaction in one partition, without its coordinator."""
        ...
