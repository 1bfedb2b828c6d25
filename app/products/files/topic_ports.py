"""What the server asks of brokers about the references to files. What is here blocks: it belongs into a thread.

`connection` is what Cluster.connection() returns, secrets as references that the implementation resolves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from app.products.files.reading import Portion


class DescribedTopic(NamedTuple):
    """topic_id: as brokers tell it, another one when a topic of the name is made anew; all the same where brokers have
    none (before 2.8). partitions: their numbers. refusal: why there is nothing to read, in a sentence: the topic is not
    there, or not for this client."""

    topic_id: str = ""
    partitions: tuple[int, ...] = ()
    refusal: str = ""


class TopicPortions(NamedTuple):
    """silent: why partitions are missing in it, in a sentence; empty where none are. What is wrong with one topic says
    nothing of the connection."""

    portions: tuple[Portion, ...]
    silent: str = ""


class ReferenceConnection(Protocol):
    """One connection that is kept, used by one thread at a time.

    Every method raises BrokerUnreachableError or UnavailableError for what a new connection may mend.
    """

    @property
    def kafka_cluster_id(self) -> str:
        """As the brokers report it."""
        ...

    def describe(self, topic: str) -> DescribedTopic: ...

    def read(self, topic: str, positions: Mapping[int, int], *, most_messages: int) -> TopicPortions:
        """The next committed messages of each partition, those of aborted transactions left out.

        Returns at once where nothing is new. A position that is not in the log, as 0 where its beginning is gone,
        brings nothing but the `start_offset` to go on at. Batches are not divided, so that it may be up to one batch of
        each partition more than `most_messages`.
        """
        ...


class ReferenceTopics(Protocol):
    def open_topics(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[ReferenceConnection]:
        """Raises BrokerUnreachableError, UnavailableError, InvalidError when a secret cannot be resolved.

        timeout_s: for this, and for each question of the connection.
        """
        ...
