"""Read the references to files with raw Fetch requests, by the rules of `read_committed`.

A consumer would filter aborted transactions itself. But it reports neither the log start offset, nor the topic id, nor
the time of a commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.clusters.partition import Partition
from app.edges.kafka.raw_client import error_of, errors
from app.edges.kafka.raw_fetch import FetchedLog, FetchIsolation, RawFetcher
from app.edges.kafka.transactions.lasting import LastingClient, LastingConnector
from app.products.files.committed import committed_messages
from app.products.files.reading import Portion
from app.products.files.topic_ports import DescribedTopic, ReferenceConnection, TopicPortions

# The last version in which brokers return names with topic ids, and errors by topic.
_METADATA_VERSION = 12
_NO_ID = UUID(int=0)

_Metadata: Any = MetadataRequest


class KafkaReferenceTopics(LastingConnector):
    """Implement app/products/files/topic_ports.py."""

    def open_topics(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[ReferenceConnection]:
        return self._opened(ReferenceClient, connection, timeout_s=timeout_s, what="let references be read")


class ReferenceClient(LastingClient, RawFetcher):
    """Implement ReferenceConnection."""

    def describe(self, topic: str) -> DescribedTopic:
        return self._asked(f"describe {topic}", lambda: self._described(topic))

    def read(self, topic: str, positions: Mapping[int, int], *, most_messages: int) -> TopicPortions:
        def question() -> TopicPortions:
            try:
                return self._read(topic, positions, most_messages)
            except errors.TopicAuthorizationFailedError:
                return TopicPortions((), _not_allowed(topic))
            except errors.UnknownTopicOrPartitionError:
                return TopicPortions((), _not_there(topic))

        return self._asked(f"let {topic} be read", question)

    def _described(self, topic: str) -> DescribedTopic:
        answer = self._ask_any(
            _Metadata(
                topics=[_Metadata.MetadataRequestTopic(topic_id=_NO_ID, name=topic)],
                allow_auto_topic_creation=False,
                max_version=_METADATA_VERSION,
            )
        )
        (found,) = answer.topics
        error = None if found.error_code == 0 else error_of(found.error_code, topic)
        if isinstance(error, errors.TopicAuthorizationFailedError):
            return DescribedTopic(refusal=_not_allowed(topic))
        if isinstance(error, (errors.UnknownTopicOrPartitionError, errors.InvalidTopicError)):
            return DescribedTopic(refusal=_not_there(topic))
        if error is not None:
            return DescribedTopic(refusal=f"brokers do not describe {topic}: {error}")
        topic_id: UUID | None = found.topic_id
        return DescribedTopic(
            topic_id=str(topic_id or _NO_ID),
            partitions=tuple(sorted(part.partition_index for part in found.partitions)),
        )

    def _read(self, topic: str, positions: Mapping[int, int], most_messages: int) -> TopicPortions:
        self.last_failure = ""
        wanted = {Partition(topic, number): position for number, position in positions.items()}
        if self._led(wanted) < len(wanted):
            # Partitions were added, or leaders elected, since the last request for leaders.
            self._forget_leaders()
        found = self.fetch(wanted, max_wait_ms=0, isolation=FetchIsolation.READ_COMMITTED)
        share = max(1, most_messages // max(1, len(wanted)))
        portions = [_portion(at.partition, wanted[at], log, most=share) for at, log in found.items()]
        missing = sorted(at.partition for at in wanted if at not in found)
        silent = ""
        if missing:
            names = ", ".join(f"{topic}-{number}" for number in missing[:5]) + (", …" if len(missing) > 5 else "")
            silent = f"the leader of {names} does not answer: {self.last_failure or 'there is none now'}"
        return TopicPortions(tuple(sorted(portions, key=lambda one: one.partition)), silent)

    def _led(self, partitions: Collection[Partition]) -> int:
        """Return the number of these partitions with a leader."""
        return sum(len(led) for led in self._leaders(partitions).values())


def _portion(partition: int, position: int, log: FetchedLog, *, most: int) -> Portion:
    end_offset = log.last_stable_offset if log.last_stable_offset >= 0 else None
    if not log.batches and log.next_offset != position:
        # The position is not in the log (any more, or not yet): return the log start offset instead.
        return Portion(
            partition=partition,
            start_offset=log.next_offset,
            next_offset=log.next_offset,
            end_offset=None,
        )
    messages, next_offset = committed_messages(log.batches, log.aborted, position=position, most=most)
    return Portion(
        partition=partition,
        start_offset=position,
        next_offset=next_offset,
        end_offset=end_offset,
        messages=messages,
    )


def _not_there(topic: str) -> str:
    return f"the cluster has no topic {topic}, or hides it from this client"


def _not_allowed(topic: str) -> str:
    return f"the brokers do not let this client read {topic}: it requires Describe and Read on the topic"
