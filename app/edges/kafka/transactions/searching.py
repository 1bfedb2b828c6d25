"""The requests of the search for hanging transactions: the ends of all partitions, and details of a few."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.blocked.facts import PartitionFacts
from app.core.clusters.partition import Partition
from app.core.fencing.evidence import MarkerRecord
from app.core.hanging.brokers import Ends, SearchConnection
from app.core.hanging.search import StableEnd
from app.core.journals.record_batch import Marker, RecordBatch, UnreadableBatch, read_marker
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_client import error_of, errors, is_transient
from app.edges.kafka.raw_fetch import LATEST, FetchIsolation
from app.edges.kafka.transactions.client import TransactionClient
from app.edges.kafka.transactions.lasting import LastingClient, LastingConnector
from app.edges.kafka.transactions.leaders import METADATA_VERSION
from app.edges.kafka.transactions.looking import look_at_holders
from app.edges.kafka.transactions.questions import LIST_OFFSETS

# Each is at most a megabyte: a marker beyond that is not worth the read.
_ANSWERS_FOR_A_MARKER = 32

_Metadata: Any = MetadataRequest


class KafkaSearch(LastingConnector):
    """Implements app/core/hanging/brokers.py."""

    def open_search(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[SearchConnection]:
        return self._opened(SearchClient, connection, timeout_s=timeout_s, what="serve the search")


class SearchClient(LastingClient, TransactionClient):
    """The SearchConnection port."""

    def __init__(self, resolved: Mapping[str, str], attempt: ConnectionAttempt, *, timeout_s: float) -> None:
        super().__init__(resolved, attempt, timeout_s=timeout_s)
        self._led_by: dict[Partition, int] = {}

    def all_partitions(self) -> tuple[Partition, ...]:
        return self._asked("list all partitions", self._all_partitions)

    def stable_ends(self, partitions: Collection[Partition]) -> Ends:
        return self._asked("return the ends of partitions", lambda: self._stable_ends(partitions))

    def look(self, partitions: Collection[Partition]) -> list[PartitionFacts]:
        return self._asked("describe open transactions", lambda: look_at_holders(self, partitions), times=2)

    def find_marker(
        self, at: Partition, *, producer_id: int, from_offset: int, until_offset: int | None = None
    ) -> MarkerRecord | None:
        def question() -> MarkerRecord | None:
            try:
                return self._find_marker(at, producer_id, from_offset, until_offset)
            except (errors.UnknownTopicOrPartitionError, errors.AuthorizationError):
                # Deleted with its topic, or not readable any more.
                return None

        return self._asked(f"return records of {at}", question)

    def _all_partitions(self) -> tuple[Partition, ...]:
        answer = self._ask_any(
            _Metadata(topics=None, allow_auto_topic_creation=False, max_version=METADATA_VERSION),
        )
        self._led_by = {
            Partition(topic.name, part.partition_index): part.leader_id
            for topic in answer.topics
            for part in topic.partitions
        }
        return tuple(sorted(self._led_by))

    def _stable_ends(self, partitions: Collection[Partition]) -> Ends:
        silent: dict[str, None] = {}
        # The high watermark first: records written between the answers must not look blocked (ADR 0018).
        high = self._latest(partitions, FetchIsolation.READ_UNCOMMITTED, silent)
        stable = self._latest(high, FetchIsolation.READ_COMMITTED, silent)
        ends: dict[Partition, StableEnd] = {at: StableEnd(end, max(high[at], end)) for at, end in stable.items()}
        return Ends(ends, tuple(silent), is_stale=len(ends) < len(partitions))

    def _latest(
        self, partitions: Collection[Partition], isolation: FetchIsolation, silent: dict[str, None]
    ) -> dict[Partition, int]:
        """Ask without retries: the next sweep asks again about moved leaders and missing answers."""
        led: defaultdict[int, list[Partition]] = defaultdict(list)
        for at in partitions:
            leader = self._led_by.get(at, -1)
            if leader >= 0:
                led[leader].append(at)
            else:
                silent[f"{at.topic} has partitions without a leader"] = None
        with self._half_of_the_time():
            answers = self._from_each({n: self._list_request(of, LATEST, isolation) for n, of in led.items()})
        found: dict[Partition, int] = {}
        for broker, answer in answers.items():
            if isinstance(answer, Exception):
                silent[f"broker {broker} does not answer: {answer}"] = None
                continue
            for topic in answer.topics:
                for part in topic.partitions:
                    error = None if part.error_code == 0 else error_of(part.error_code, None)
                    if error is None:
                        found[Partition(topic.name, part.partition_index)] = part.offset
                    elif not is_transient(error):
                        silent[LIST_OFFSETS.refused(topic.name, error).sentence] = None
        return found

    def _find_marker(
        self, at: Partition, producer_id: int, from_offset: int, until_offset: int | None
    ) -> MarkerRecord | None:
        end = self.list_offsets([at], LATEST)[at] if until_offset is None else until_offset
        position = from_offset
        for _ in range(_ANSWERS_FOR_A_MARKER):
            if position >= end:
                return None
            answer = self.fetch({at: position}).get(at)
            if answer is None:
                # Its leader moves.
                continue
            markers = (_marker_of(batch, at, producer_id) for batch in answer.batches)
            found = next((one for one in markers if one is not None and one.offset >= from_offset), None)
            if found is not None:
                return found if until_offset is None or found.offset < until_offset else None
            position = answer.next_offset
        return None


def _marker_of(batch: RecordBatch | UnreadableBatch, at: Partition, producer_id: int) -> MarkerRecord | None:
    """Compare the producer id alone: a coordinator's marker may have the next epoch (KIP-890)."""
    if not isinstance(batch, RecordBatch) or not batch.is_control or batch.producer_id != producer_id:
        return None
    marker = read_marker(batch)
    if not isinstance(marker, Marker):
        return None
    return MarkerRecord(
        topic=at.topic,
        partition=at.partition,
        offset=batch.base_offset,
        at_ms=batch.max_timestamp_ms,
        type=marker.type,
        coordinator_epoch=marker.coordinator_epoch,
    )
