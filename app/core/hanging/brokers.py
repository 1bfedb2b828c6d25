"""What the continuous search for hanging transactions asks of brokers. What is here blocks: it belongs into a thread.

`connection` is what Cluster.connection() returns, secrets as references that the implementation resolves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from app.core.blocked.facts import Partition, PartitionFacts
from app.core.clusters.brokers import TopicPartition
from app.core.fencing.evidence import MarkerRecord
from app.core.hanging.search import StableEnd

PARTITIONS_A_REQUEST = 2_000
"""So many are asked about at once; on a larger cluster one after another."""


class Ends(NamedTuple):
    """ends: of those partitions whose leaders told. silent: a sentence for each broker or topic that did not.

    is_stale: some have another leader than `all_partitions` told last.
    """

    ends: dict[Partition, StableEnd]
    silent: tuple[str, ...] = ()
    is_stale: bool = False


class SearchConnection(Protocol):
    """One connection that is kept, used by one thread at a time.

    Every method raises BrokerUnreachableError or UnavailableError for what a new connection may mend.
    """

    @property
    def kafka_cluster_id(self) -> str:
        """As the brokers report it."""
        ...

    def all_partitions(self) -> tuple[TopicPartition, ...]:
        """All of every topic that may be seen, internal ones too, by topic. Its answer is asked for, and not small."""
        ...

    def stable_ends(self, partitions: Collection[TopicPartition]) -> Ends:
        """At both isolation levels, by one request each to every leader as `all_partitions` told them."""
        ...

    def look(self, partitions: Collection[TopicPartition]) -> list[PartitionFacts]:
        """Both looks at the leaders, and the coordinators' word (app/edges/kafka/transactions/looking.py)."""
        ...

    def find_marker(
        self, at: TopicPartition, *, producer_id: int, from_offset: int, until_offset: int | None = None
    ) -> MarkerRecord | None:
        """The producer's first marker from there on, before `until_offset` or the end of the log; None where it is not
        to be found in bounded reading."""
        ...


class SearchBrokers(Protocol):
    def open_search(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[SearchConnection]:
        """Raises BrokerUnreachableError, UnavailableError, InvalidError when a secret cannot be resolved.

        timeout_s: for this, and for each question of the connection; a look may take twice as long.
        """
        ...
