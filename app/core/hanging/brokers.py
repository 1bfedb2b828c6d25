"""The requests of the continuous search for hanging transactions. They block, so they are called in a thread.

`connection` is the result of Cluster.connection(), with references to secrets that the implementation resolves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from app.core.blocked.facts import PartitionFacts
from app.core.clusters.partition import Partition
from app.core.fencing.evidence import MarkerRecord
from app.core.hanging.search import StableEnd

PARTITIONS_A_REQUEST = 2_000
"""The most partitions of one request; larger clusters take several."""


class Ends(NamedTuple):
    """ends: of the partitions whose leaders answered. `silent`: a sentence for each broker or topic that did not
    answer.

    is_stale: some partitions have another leader than in the last answer of `all_partitions`.
    """

    ends: dict[Partition, StableEnd]
    silent: tuple[str, ...] = ()
    is_stale: bool = False


class SearchConnection(Protocol):
    """A persistent connection, used by one thread at a time.

    Every method raises BrokerUnreachableError or UnavailableError for errors that a new connection may fix.
    """

    @property
    def kafka_cluster_id(self) -> str:
        """The id that the brokers report."""
        ...

    def all_partitions(self) -> tuple[Partition, ...]:
        """Return all partitions of every visible topic, including internal ones, by topic. The request is not small."""
        ...

    def stable_ends(self, partitions: Collection[Partition]) -> Ends:
        """Return the ends at both isolation levels, with one request each to every leader of the last
        `all_partitions`.
        """
        ...

    def look(self, partitions: Collection[Partition]) -> list[PartitionFacts]:
        """Return both answers of the leaders, and the coordinators' answer
        (app/edges/kafka/transactions/looking.py).
        """
        ...

    def find_marker(
        self, at: Partition, *, producer_id: int, from_offset: int, until_offset: int | None = None
    ) -> MarkerRecord | None:
        """Return the producer's first marker from there on, before `until_offset` or the end of the log; None if
        bounded reading does not find it.
        """
        ...


class SearchBrokers(Protocol):
    def open_search(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[SearchConnection]:
        """Raises BrokerUnreachableError, UnavailableError, InvalidError if a secret cannot be resolved.

        timeout_s: for this, and for each request of the connection; a check may take twice as long.
        """
        ...
