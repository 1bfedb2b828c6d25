"""What the leaders of partitions are asked: their ends at both isolation levels, what they have open, markers.

Each refusal is kept at the partition that it is about, and does not cost the others their answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin.transactions import DescribeProducersRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.blocked.facts import LogEnds, OpenTransaction, Refused
from app.core.clusters.brokers import TopicPartition
from app.edges.kafka.raw_client import errors
from app.edges.kafka.raw_fetch import EARLIEST, LATEST, Isolation, RawFetcher
from app.edges.kafka.transactions.asking import AskingClient, error_in
from app.edges.kafka.transactions.questions import (
    DESCRIBE_PRODUCERS,
    LIST_OFFSETS,
    METADATA,
    WRITE_MARKERS,
    Question,
    no_such_partition,
    open_transaction,
)

V = TypeVar("V")

# Names topics by name and not by id, and is spoken by every broker that knows the other questions.
METADATA_VERSION = 9

_Producers: Any = DescribeProducersRequest
_Metadata: Any = MetadataRequest
_Markers: Any = WriteTxnMarkersRequest

Parts = Collection[TopicPartition]
Row = tuple[TopicPartition, int, V]
"""A partition, its error code, and what was said of it."""


class LeaderClient(RawFetcher, AskingClient):
    """A connection to the cluster; leave it as a context manager does. Its methods block."""

    def partitions_of(self, topic: str) -> tuple[int, ...] | Refused:
        """The numbers of a topic's partitions."""
        leaders = self._leaders_by_topic([topic])[topic]
        return leaders if isinstance(leaders, Refused) else tuple(sorted(leaders))

    def leaders_of(self, topic: str) -> dict[int, int]:
        """Which broker leads each partition of a topic; empty where the topic may not be seen."""
        found = self._leaders_by_topic([topic])[topic]
        return {} if isinstance(found, Refused) else found

    def leaders(self, partitions: Parts) -> dict[TopicPartition, int]:
        """Which broker leads each; without those that nobody leads or that may not be seen."""
        found = self._leaders_by_topic({at.topic for at in partitions})
        led = {at: of_topic.get(at.partition, -1) for at in partitions if isinstance(of_topic := found[at.topic], dict)}
        return {at: leader for at, leader in led.items() if leader >= 0}

    def ends(self, partitions: Parts) -> dict[TopicPartition, LogEnds | Refused]:
        """Where each begins and ends, for readers of committed data and for all."""
        # The high watermark first: a last stable offset behind an older high watermark is held by a transaction,
        # whatever was written in between. In the other order every record of that time looks held (ADR 0018).
        high = self._offsets(partitions, LATEST, Isolation.READ_UNCOMMITTED)
        stable = self._offsets(_told(high), LATEST, Isolation.READ_COMMITTED)
        first = self._offsets(_told(stable), EARLIEST, Isolation.READ_UNCOMMITTED)
        found: dict[TopicPartition, LogEnds | Refused] = {}
        for at in partitions:
            # Who was refused one answer is not asked for the next.
            answers = [answered[at] for answered in (first, stable, high) if at in answered]
            refused = next((one for one in answers if isinstance(one, Refused)), None)
            numbers = [one for one in answers if isinstance(one, int)]
            found[at] = refused or LogEnds.in_turn(*numbers)
        return found

    def open_transactions(self, partitions: Parts) -> dict[TopicPartition, tuple[OpenTransaction, ...] | Refused]:
        """What each partition's leader has open."""

        def request(led: Parts) -> Any:
            topic = _Producers.TopicRequest
            return _Producers(
                topics=[topic(name=name, partition_indexes=numbers) for name, numbers in _by_topic(led).items()]
            )

        def rows(answer: Any) -> Iterable[Row[tuple[OpenTransaction, ...]]]:
            for topic in answer.topics:
                for part in topic.partitions:
                    found = tuple(
                        open_transaction(row) for row in part.active_producers if row.current_txn_start_offset >= 0
                    )
                    yield TopicPartition(topic.name, part.partition_index), part.error_code, found

        with self._half_of_the_time():
            return self._of_leaders(DESCRIBE_PRODUCERS, partitions, request, rows)

    def write_abort_marker(
        self, at: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> Refused | None:
        """End what this producer has open in one partition; None when its leader has taken the marker."""

        def request(led: Parts) -> Any:
            marker = _Markers.WritableTxnMarker
            topics = [
                marker.WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                for name, numbers in _by_topic(led).items()
            ]
            return _Markers(
                markers=[
                    marker(
                        producer_id=producer_id,
                        producer_epoch=producer_epoch,
                        transaction_result=False,
                        topics=topics,
                        coordinator_epoch=coordinator_epoch,
                    )
                ],
                max_version=1,
            )

        def rows(answer: Any) -> Iterable[Row[None]]:
            for marker in answer.markers:
                for topic in marker.topics:
                    for part in topic.partitions:
                        yield TopicPartition(topic.name, part.partition_index), part.error_code, None

        return self._of_leaders(WRITE_MARKERS, [at], request, rows)[at]

    def _offsets(self, partitions: Parts, which: int, isolation: Isolation) -> dict[TopicPartition, int | Refused]:
        def rows(answer: Any) -> Iterable[Row[int]]:
            for topic in answer.topics:
                for part in topic.partitions:
                    yield TopicPartition(topic.name, part.partition_index), part.error_code, int(part.offset)

        with self._half_of_the_time():
            return self._of_leaders(
                LIST_OFFSETS, partitions, lambda led: self._list_request(led, which, isolation), rows
            )

    def _of_leaders(
        self,
        question: Question,
        partitions: Parts,
        request: Callable[[Parts], Any],
        rows: Callable[[Any], Iterable[Row[V]]],
    ) -> dict[TopicPartition, V | Refused]:
        """Ask the leader of each partition, again while leaders move; what is refused is so for its partition only."""
        found: dict[TopicPartition, V | Refused] = {}
        last: dict[TopicPartition, Exception] = {}
        while missing := [at for at in partitions if at not in found]:
            try:
                leaders = self._leaders_by_topic({at.topic for at in missing})
            except errors.KafkaError as silence:
                if not last:
                    raise
                # Time ran out between two rounds: what is answered stays so, and the rest keeps its own reason.
                return found | {at: question.refused(_name(at), last.setdefault(at, silence)) for at in missing}
            led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
            for at in missing:
                of_topic = leaders[at.topic]
                if isinstance(of_topic, Refused):
                    found[at] = of_topic
                elif at.partition not in of_topic:
                    found[at] = no_such_partition(question, at.topic, at.partition, partitions=len(of_topic))
                elif of_topic[at.partition] >= 0:
                    led[of_topic[at.partition]].append(at)
                else:
                    last[at] = errors.LeaderNotAvailableError("it has no leader")
            for broker, answer in self._from_each({n: request(parts) for n, parts in led.items()}).items():
                if isinstance(answer, Exception):
                    last |= dict.fromkeys(led[broker], answer)
                    continue
                for at, code, said in rows(answer):
                    error = error_in(code)
                    if error is None:
                        found[at] = said
                    else:
                        last[at] = error
            self._settle(found, missing, last, lambda at, error: question.refused(_name(at), error))
        return found

    def _leaders_by_topic(self, topics: Collection[str]) -> dict[str, dict[int, int] | Refused]:
        """The leader of each partition of each topic, -1 where there is none now. The answer is not kept."""
        answer = self._ask_any(
            _Metadata(
                topics=[_Metadata.MetadataRequestTopic(name=name) for name in topics],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
                max_version=METADATA_VERSION,
            )
        )
        found: dict[str, dict[int, int] | Refused] = {}
        for topic in answer.topics:
            error = error_in(topic.error_code)
            if error is None or isinstance(error, errors.LeaderNotAvailableError):
                found[topic.name] = {part.partition_index: part.leader_id for part in topic.partitions}
            else:
                found[topic.name] = METADATA.refused(topic.name, error)
        return found


def _told(answers: Mapping[TopicPartition, int | Refused]) -> list[TopicPartition]:
    return [at for at, answer in answers.items() if isinstance(answer, int)]


def _by_topic(partitions: Parts) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at in partitions:
        found[at.topic].append(at.partition)
    return found


def _name(at: TopicPartition) -> str:
    return f"{at.topic}-{at.partition}"
