"""Ask the leaders of partitions for their ends at both isolation levels and open transactions, and write markers.

Each refusal is kept at its partition, and does not cost the others their answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin.transactions import DescribeProducersRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.blocked.facts import LogEnds, OpenTransaction, Refused
from app.core.clusters.partition import Partition
from app.edges.kafka.raw_client import errors
from app.edges.kafka.raw_fetch import EARLIEST, LATEST, FetchIsolation, RawFetcher
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

# It names topics instead of ids, and every broker that supports the other requests supports it.
METADATA_VERSION = 9

_Producers: Any = DescribeProducersRequest
_Metadata: Any = MetadataRequest
_Markers: Any = WriteTxnMarkersRequest

Parts = Collection[Partition]
Row = tuple[Partition, int, V]
"""A partition, its error code, and its error message."""
Leaders = Mapping[str, Mapping[int, int] | Refused]
"""The leader of each partition of each topic, -1 without one."""


class LeaderClient(RawFetcher, AskingClient):
    """A connection to the cluster; a context manager. Its methods block."""

    def partitions_of(self, topic: str) -> tuple[int, ...] | Refused:
        """Return the numbers of a topic's partitions."""
        leaders = self._leaders_by_topic([topic])[topic]
        return leaders if isinstance(leaders, Refused) else tuple(sorted(leaders))

    def leaders_of(self, topic: str) -> Mapping[int, int]:
        """Return the leader of each partition of a topic; empty if the topic may not be described."""
        found = self._leaders_by_topic([topic])[topic]
        return {} if isinstance(found, Refused) else found

    def leaders(self, partitions: Parts) -> dict[Partition, int]:
        """Return the leader of each, without leaderless partitions and those that may not be described."""
        found = self._leaders_by_topic({at.topic for at in partitions})
        led = {
            at: of_topic.get(at.partition, -1)
            for at in partitions
            if not isinstance(of_topic := found[at.topic], Refused)
        }
        return {at: leader for at, leader in led.items() if leader >= 0}

    def ends(self, partitions: Parts, leaders: Leaders | None = None) -> dict[Partition, LogEnds | Refused]:
        """Return the first offset and the end of each, for read_committed consumers and for all.

        leaders: if they were asked for just now.
        """
        if not partitions:
            return {}
        leaders = self._leaders_by_topic({at.topic for at in partitions}) if leaders is None else leaders
        # The high watermark first: a last stable offset below an older high watermark is blocked by a transaction,
        # independent of later writes. In the other order every record in between would look blocked (ADR 0018).
        high = self._offsets(partitions, LATEST, FetchIsolation.READ_UNCOMMITTED, leaders)
        stable = self._offsets(_told(high), LATEST, FetchIsolation.READ_COMMITTED, leaders)
        first = self._offsets(_told(stable), EARLIEST, FetchIsolation.READ_UNCOMMITTED, leaders)
        found: dict[Partition, LogEnds | Refused] = {}
        for at in partitions:
            # Partitions with one refusal are left out of the next request.
            answers = [answered[at] for answered in (first, stable, high) if at in answered]
            refused = next((one for one in answers if isinstance(one, Refused)), None)
            numbers = [one for one in answers if isinstance(one, int)]
            found[at] = refused or LogEnds.in_turn(*numbers)
        return found

    def open_transactions(self, partitions: Parts) -> dict[Partition, tuple[OpenTransaction, ...] | Refused]:
        """Return the open transactions of each partition's leader."""
        return {
            at: rows if isinstance(rows, Refused) else tuple(row for row in rows if row.start_offset >= 0)
            for at, rows in self.producers(partitions).items()
        }

    def producers(
        self, partitions: Parts, leaders: Leaders | None = None
    ) -> dict[Partition, tuple[OpenTransaction, ...] | Refused]:
        """Return the producers that each partition's leader knows; `start_offset` is -1 without an open transaction."""

        def request(led: Parts) -> Any:
            topic = _Producers.TopicRequest
            return _Producers(
                topics=[topic(name=name, partition_indexes=numbers) for name, numbers in _by_topic(led).items()]
            )

        def rows(answer: Any) -> Iterable[Row[tuple[OpenTransaction, ...]]]:
            for topic in answer.topics:
                for part in topic.partitions:
                    found = tuple(open_transaction(row) for row in part.active_producers)
                    yield Partition(topic.name, part.partition_index), part.error_code, found

        with self._half_of_the_time():
            return self._of_leaders(DESCRIBE_PRODUCERS, partitions, request, rows, leaders)

    def write_abort_marker(
        self, at: Partition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> Refused | None:
        """Abort this producer's transaction in one partition; None when its leader has accepted the marker."""

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
                        yield Partition(topic.name, part.partition_index), part.error_code, None

        return self._of_leaders(WRITE_MARKERS, [at], request, rows)[at]

    def _offsets(
        self, partitions: Parts, which: int, isolation: FetchIsolation, leaders: Leaders | None = None
    ) -> dict[Partition, int | Refused]:
        def rows(answer: Any) -> Iterable[Row[int]]:
            for topic in answer.topics:
                for part in topic.partitions:
                    yield Partition(topic.name, part.partition_index), part.error_code, int(part.offset)

        with self._half_of_the_time():
            return self._of_leaders(
                LIST_OFFSETS, partitions, lambda led: self._list_request(led, which, isolation), rows, leaders
            )

    def _of_leaders(
        self,
        question: Question,
        partitions: Parts,
        request: Callable[[Parts], Any],
        rows: Callable[[Any], Iterable[Row[V]]],
        leaders: Leaders | None = None,
    ) -> dict[Partition, V | Refused]:
        """Ask the leader of each partition, again while leaders move; a refusal counts for its partition only.

        leaders: for the first request of each; None: ask for them.
        """
        given = leaders
        found: dict[Partition, V | Refused] = {}
        last: dict[Partition, Exception] = {}
        while missing := [at for at in partitions if at not in found]:
            try:
                leaders, given = given or self._leaders_by_topic({at.topic for at in missing}), None
            except errors.KafkaError as silence:
                if not last:
                    raise
                # Time ran out between two rounds: answers are kept, and the others keep their own reasons.
                return found | {at: question.refused(str(at), last.setdefault(at, silence)) for at in missing}
            led: defaultdict[int, list[Partition]] = defaultdict(list)
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
            self._settle(found, missing, last, lambda at, error: question.refused(str(at), error))
        return found

    def _leaders_by_topic(self, topics: Collection[str]) -> Leaders:
        """Return the leader of each partition of each topic, -1 without one. The answer is not cached."""
        answer = self._ask_any(
            _Metadata(
                topics=[_Metadata.MetadataRequestTopic(name=name) for name in topics],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
                max_version=METADATA_VERSION,
            )
        )
        found: dict[str, Mapping[int, int] | Refused] = {}
        for topic in answer.topics:
            error = error_in(topic.error_code)
            if error is None or isinstance(error, errors.LeaderNotAvailableError):
                found[topic.name] = {part.partition_index: part.leader_id for part in topic.partitions}
            else:
                found[topic.name] = METADATA.refused(topic.name, error)
        return found


def _told(answers: Mapping[Partition, int | Refused]) -> list[Partition]:
    return [at for at, answer in answers.items() if isinstance(answer, int)]


def _by_topic(partitions: Parts) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at in partitions:
        found[at.topic].append(at.partition)
    return found
