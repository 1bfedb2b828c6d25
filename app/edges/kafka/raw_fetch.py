"""Fetch the raw logs of partitions: batch headers, pending and aborted records, control records and all.

It sends Fetch version 11 to the leaders: every broker from 2.3 to 4.x supports it, and it names topics. At
read_committed an answer ends at the last stable offset and lists aborted transactions; the batches are the same.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.clusters.partition import Partition
from app.core.journals.log_look import AbortedTransaction
from app.core.journals.record_batch import RecordBatch, UnreadableBatch, split_batches
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.fetch_session import SessionRequest
from app.edges.kafka.raw_client import RawClient, error_of, errors, failure, is_transient, reading_answers
from app.edges.kafka.raw_connections import MalformedAnswerError
from app.kit.errors import UnavailableError

_FETCH_VERSION = 11
_LIST_OFFSETS_VERSION = 5
_CONSUMER = -1
_OFFSET_OUT_OF_RANGE = 1
EARLIEST = -2
LATEST = -1
PARTITION_MAX_BYTES = 1 << 20
# An answer is in memory several times while it is decoded, and the allocator seldom returns memory.
_MAX_BYTES = 4 << 20
_RETRY_S = 0.05
_LAST_OFFSET = 2**63 - 1
_WITHOUT_SESSION = SessionRequest(0, -1, {}, ())

FetchMessage: Any = FetchRequest
ListOffsetsMessage: Any = ListOffsetsRequest


class FetchIsolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FetchedLog(NamedTuple):
    """The answer for one partition.

    batches: the first may begin before the requested offset. next_offset: the next offset to fetch; the log's start if
        the requested offset is deleted. -1: not in the answer.
    aborted: at read_committed, the aborted transactions that overlap the batches.
    """

    batches: tuple[RecordBatch | UnreadableBatch, ...]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()


def offset_after(batches: Sequence[RecordBatch | UnreadableBatch], position: int) -> int:
    """Return the next offset. Raises MalformedAnswerError for batches before `position`, which would never end."""
    if not batches:
        return position
    after = batches[-1].last_offset + 1
    if not position < after <= _LAST_OFFSET:
        raise MalformedAnswerError(f"batches up to offset {after - 1} were returned for offset {position}")
    return after


def read_logs(
    resolved: Mapping[str, str], attempt: ConnectionAttempt, topic: str, *, since: Mapping[int, int] | None = None
) -> Iterator[tuple[int, RecordBatch | UnreadableBatch]]:
    """Yield the batches of a topic with their partition: from the beginning to the present end. Blocks.

    Args:
        attempt: for the whole read.
        since: by partition, a first offset, if earlier batches have been read.

    Raises:
        BrokerUnreachableError, or UnavailableError: not allowed, not there, or the end was not reached in time.
    """
    what = f"return records of {topic}"
    try:
        with RawFetcher(resolved, attempt) as fetcher, reading_answers():
            chosen = [Partition(topic, number) for number in fetcher.partitions(topic)]
            # The present end: on a busy cluster a reader that waits for "no more" never ends. Not the high watermark of
            # a fetch, which is too low at a new leader; ListOffsets waits until it is right.
            ends = fetcher.list_offsets(chosen, LATEST)
            beginnings = fetcher.list_offsets(chosen, EARLIEST)
            read = since or {}
            positions = {at: max(offset, read.get(at.partition, 0)) for at, offset in beginnings.items()}
            positions = {at: offset for at, offset in positions.items() if offset < ends[at]}
            while positions:
                fetcher.raise_if_late(f"the end of {len(positions)} partitions of {topic}")
                for at, found in fetcher.fetch(positions).items():
                    for batch in found.batches:
                        if batch.last_offset < ends[at]:
                            yield at.partition, batch
                    positions[at] = found.next_offset
                    if found.next_offset >= ends[at]:
                        del positions[at]
    except errors.KafkaError as error:
        raise failure(attempt, what, error) from error


class RawFetcher(RawClient):
    """Fetches from the leaders, and finds them again when they have moved."""

    def __init__(self, resolved: Mapping[str, str], attempt: ConnectionAttempt) -> None:
        super().__init__(resolved, attempt)
        self._topics: set[str] = set()
        self.last_failure = ""

    def partitions(self, topic: str) -> frozenset[int]:
        """Raise a KafkaError of the library's if the topic is missing or may not be described."""
        while True:
            self._leaders([Partition(topic, 0)])
            if found := self._manager.cluster.partitions_for_topic(topic):
                return frozenset(found)
            self.raise_if_late(f"the partitions of {topic}")
            self._forget_leaders()

    def raise_if_late(self, what: str) -> None:
        """Raise UnavailableError when the time is up."""
        if self._attempt.is_over:
            raise UnavailableError(f"not reached in time: {what}; last seen: {self.last_failure or 'no failure'}")

    def fetch(
        self,
        positions: Mapping[Partition, int],
        *,
        max_wait_ms: int = 100,
        isolation: FetchIsolation = FetchIsolation.READ_UNCOMMITTED,
    ) -> dict[Partition, FetchedLog]:
        """Return one answer of each leader, after `max_wait_ms` at the latest. Partitions without a leader are missing.

        Raises a KafkaError of the library's for errors that a retry does not fix.
        """
        requests = {
            broker_id: self._request({at: positions[at] for at in led}, max_wait_ms, isolation)
            for broker_id, led in self._leaders(positions).items()
        }
        found: dict[Partition, FetchedLog] = {}
        for answer in self._manager.run(self._answers, requests):
            found |= self._fetched(answer, positions)
        if len(found) < len(positions):
            self._forget_leaders()
        return found

    def list_offsets(
        self,
        partitions: Collection[Partition],
        which: int,
        *,
        isolation: FetchIsolation = FetchIsolation.READ_UNCOMMITTED,
    ) -> dict[Partition, int]:
        """Return the EARLIEST or LATEST offset of each, LATEST being the high watermark, or the last stable offset.

        which: one of these, or a timestamp in ms: the first offset at or after it, -1 without one.

        Version 5 (KIP-207): a new leader whose high watermark is still below its predecessor's returns an error.
        """
        found: dict[Partition, int] = {}
        while len(found) < len(partitions):
            missing = [at for at in partitions if at not in found]
            requests = {
                broker: self._list_request(led, which, isolation) for broker, led in self._leaders(missing).items()
            }
            for answer in self._manager.run(self._answers, requests):
                for topic in answer.topics:
                    for part in topic.partitions:
                        at = Partition(topic.name, part.partition_index)
                        if self._is_answer(at, part.error_code):
                            found[at] = int(part.offset)
            if len(found) < len(partitions):
                self.raise_if_late(f"the offsets of {missing[0].topic}")
                self._forget_leaders()
        return found

    def _list_request(self, partitions: Collection[Partition], which: int, isolation: FetchIsolation) -> Any:
        message = ListOffsetsMessage
        topic = message.ListOffsetsTopic
        by_topic: defaultdict[str, list[Any]] = defaultdict(list)
        for at in partitions:
            by_topic[at.topic].append(
                topic.ListOffsetsPartition(partition_index=at.partition, current_leader_epoch=-1, timestamp=which)
            )
        return message(
            replica_id=_CONSUMER,
            isolation_level=isolation,
            topics=[topic(name=name, partitions=wanted) for name, wanted in by_topic.items()],
            min_version=_LIST_OFFSETS_VERSION,
            max_version=_LIST_OFFSETS_VERSION,
        )

    def _is_answer(self, at: Partition, error_code: int) -> bool:
        """Return False for errors that a retry may fix; raise a KafkaError of the library's for others."""
        if error_code == 0:
            return True
        error = error_of(error_code, str(at))
        if not is_transient(error):
            raise error
        self.last_failure = str(error)
        return False

    def _request(
        self,
        positions: Mapping[Partition, int],
        max_wait_ms: int,
        isolation: FetchIsolation,
        *,
        session: SessionRequest = _WITHOUT_SESSION,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
    ) -> Any:
        topic = FetchMessage.FetchTopic
        forgotten: defaultdict[str, list[int]] = defaultdict(list)
        for at in session.forgotten:
            forgotten[at.topic].append(at.partition)
        by_topic: defaultdict[str, list[Any]] = defaultdict(list)
        for at, offset in positions.items():
            by_topic[at.topic].append(
                topic.FetchPartition(
                    partition=at.partition,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    log_start_offset=-1,
                    partition_max_bytes=partition_max_bytes,
                )
            )
        return FetchMessage(
            replica_id=_CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=isolation,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=[topic(topic=name, partitions=wanted) for name, wanted in by_topic.items()],
            forgotten_topics_data=[
                FetchMessage.ForgottenTopic(topic=name, partitions=numbers) for name, numbers in forgotten.items()
            ],
            rack_id="",
            min_version=_FETCH_VERSION,
            max_version=_FETCH_VERSION,
        )

    async def _answers(self, requests: Mapping[int, Any]) -> list[Any]:
        """Ask all brokers at once; those without an answer are left out."""
        sent = [self._sent_to(request, broker_id, self.left_ms) for broker_id, request in requests.items()]
        answers: list[Any] = []
        for future in sent:
            try:
                answers.append(await future)
            except errors.KafkaError as error:
                if not is_transient(error):
                    raise
                self.last_failure = str(error)
        return answers

    def _fetched(self, answer: Any, positions: Mapping[Partition, int]) -> dict[Partition, FetchedLog]:
        if answer.error_code != 0:
            raise error_of(answer.error_code, "the fetch")
        parts = [
            (Partition(topic.topic, part.partition_index), part)
            for topic in answer.responses
            for part in topic.partitions
        ]
        found: dict[Partition, FetchedLog] = {}
        for at, part in parts:
            if part.error_code == _OFFSET_OUT_OF_RANGE:
                start = self.list_offsets([at], EARLIEST)[at]
                found[at] = FetchedLog((), start, part.high_watermark, part.last_stable_offset, start)
            elif self._is_answer(at, part.error_code):
                batches = tuple(split_batches(bytes(part.records or b"")))
                found[at] = FetchedLog(
                    batches,
                    offset_after(batches, positions[at]),
                    part.high_watermark,
                    part.last_stable_offset,
                    part.log_start_offset,
                    tuple(
                        AbortedTransaction(entry.producer_id, entry.first_offset)
                        for entry in part.aborted_transactions or ()
                    ),
                )
        return found

    def _leaders(self, partitions: Collection[Partition]) -> dict[int, list[Partition]]:
        """Return the leaders of these partitions; those without a leader are missing."""
        topics = {at.topic for at in partitions}
        if not topics <= self._topics:
            self._topics |= topics
            self._manager.run(self._refresh)
        led: defaultdict[int, list[Partition]] = defaultdict(list)
        for at in partitions:
            leader = self._manager.cluster.leader_for_partition(at)
            if leader is not None and leader >= 0:
                led[leader].append(at)
        return led

    def _forget_leaders(self) -> None:
        """Look up leaders again before the next request, after a pause: an election takes a moment."""
        time.sleep(min(_RETRY_S, self.left_ms / 1000))
        self._topics.clear()

    async def _refresh(self) -> None:
        cluster = self._manager.cluster
        try:
            await cluster.set_topics(self._topics)
            await cluster.refresh_metadata()
        except errors.UnknownTopicOrPartitionError:
            raise
        except errors.KafkaError as error:
            # The dead broker may be the one that was asked; the next one is asked then.
            if not is_transient(error):
                raise
            self.last_failure = str(error)
