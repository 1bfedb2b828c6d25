"""Ports for reading references from brokers. The methods block, so they belong into a thread.

`connection` is the result of Cluster.connection(), with secrets as references that the implementation resolves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from app.products.files.reading import Portion


class DescribedTopic(NamedTuple):
    """The state of a topic.

    topic_id: from the brokers, changed when the topic is recreated; constant with brokers before 2.8, which have none.
    partitions: their numbers.
    refusal: the reason why nothing can be read: the topic does not exist, or is not permitted.
    """

    topic_id: str = ""
    partitions: tuple[int, ...] = ()
    refusal: str = ""


class TopicPortions(NamedTuple):
    """The portions of one read. `silent`: the reason why partitions are missing; empty if none are.

    An error of one topic is no error of the connection.
    """

    portions: tuple[Portion, ...]
    silent: str = ""


class ReferenceConnection(Protocol):
    """A persistent connection for one thread at a time.

    Every method raises BrokerUnreachableError or UnavailableError for errors that a new connection may fix.
    """

    @property
    def kafka_cluster_id(self) -> str:
        """The cluster id that the brokers report."""
        ...

    def describe(self, topic: str) -> DescribedTopic: ...

    def read(self, topic: str, positions: Mapping[int, int], *, most_messages: int) -> TopicPortions:
        """Return the next committed messages of each partition.

        It returns at once without new messages. A position that is not in the log, such as 0 after deletion, returns
        only the `start_offset` to continue at. Batches are not divided, so there may be up to one batch of each
        partition more than `most_messages`.
        """
        ...


class ReferenceTopics(Protocol):
    def open_topics(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[ReferenceConnection]:
        """Connect. Raises BrokerUnreachableError, UnavailableError, or InvalidError for an unresolved secret.

        timeout_s: for the connection, and for each of its requests.
        """
        ...
