"""Read one partition's log: raw batches, their leader's view of them, the ids of their producers. Blocks.

Up to the last stable offset it is fetched at read_committed: the same batches, and the list of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager

from app.core.clusters.brokers import TransactionalIds
from app.core.clusters.partition import Partition
from app.core.journals import transaction_state
from app.core.journals.log_look import AbortedTransaction, LogBounds, LogLook, LogStart, first_offset_of
from app.core.journals.record_batch import RecordBatch, UnreadableBatch, read_records
from app.core.journals.transaction_state import TransactionState
from app.core.journals.wire_message import Undecodable
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_client import errors, failure, reading_answers
from app.edges.kafka.raw_fetch import EARLIEST, LATEST, FetchedLog, FetchIsolation, RawFetcher, read_logs
from app.edges.kafka.transactions.client import TransactionClient
from app.kit.errors import BrokerUnreachableError, NotFoundError, UnavailableError

MAX_LOOK_BYTES = 32 << 20
MAX_WAIT_MS = 100


def read_partition_log(
    resolved: Mapping[str, str], attempt: ConnectionAttempt, at: Partition, *, start: LogStart, limit: int
) -> LogLook:
    """Return at least `limit` batches from `start` on; fewer at the log's end, or if they are very large.

    Raises BrokerUnreachableError, NotFoundError for a missing topic or partition, InvalidError for an offset outside of
    the log, or UnavailableError with the missing permission.
    """
    with refusals(attempt, at.topic), RawFetcher(resolved, attempt) as fetcher, reading_answers():
        partitions = fetcher.partitions(at.topic)
        if at.partition not in partitions:
            raise no_such_partition(at.topic, at.partition, partitions)
        return _look(fetcher, at, start=start, limit=limit)


def no_such_partition(topic: str, partition: int, partitions: Collection[int]) -> NotFoundError:
    has = "only partition 0" if len(partitions) == 1 else f"partitions 0 to {max(partitions)}"
    return NotFoundError(f"{topic} has {has}, no partition {partition}", field="partition")


@contextmanager
def refusals(attempt: ConnectionAttempt, topic: str) -> Generator[None]:
    """Raise Fenceline errors instead of the library's errors of a read of this topic."""
    try:
        yield
    except errors.UnknownTopicOrPartitionError as error:
        raise NotFoundError(
            f"the cluster at {attempt.address} has no topic {topic}, or hides it from this client", field="topic"
        ) from error
    except errors.InvalidTopicError as error:
        raise NotFoundError(f"{topic} cannot be a topic's name", field="topic") from error
    except errors.TopicAuthorizationFailedError as error:
        raise UnavailableError(
            f"the brokers at {attempt.address} refuse to read {topic}: grant Describe and Read on the topic"
        ) from error
    except errors.KafkaError as error:
        raise failure(attempt, f"return records of {topic}", error) from error


class LogRange:
    """The batches of one partition that are read so far, from `first` up to `position`."""

    def __init__(self, first: int, bounds: LogBounds) -> None:
        self.position = self._first = self._decided_until = first
        self._bounds = bounds
        self._last_stable, self.high_watermark = bounds.last_stable_offset, bounds.high_watermark
        self._aborted: set[AbortedTransaction] = set()
        self.batches: list[RecordBatch | UnreadableBatch] = []
        self.size_bytes = 0
        self.record_count = 0

    @property
    def is_at_end(self) -> bool:
        return self.position >= self.high_watermark

    @property
    def isolation(self) -> FetchIsolation:
        """The isolation level of the next fetch."""
        is_decided = self.position < self._last_stable
        return FetchIsolation.READ_COMMITTED if is_decided else FetchIsolation.READ_UNCOMMITTED

    def take(self, found: FetchedLog, isolation: FetchIsolation) -> None:
        self.batches += found.batches
        self.size_bytes += sum(batch.size_bytes for batch in found.batches)
        self.record_count += sum(batch.record_count for batch in found.batches if isinstance(batch, RecordBatch))
        self._aborted.update(found.aborted)
        self.position = found.next_offset
        if isolation is FetchIsolation.READ_COMMITTED:
            self._decided_until = self.position
        # Both are of one moment here. A newly elected leader may report less than its predecessor (KIP-207).
        self._last_stable = max(self._last_stable, found.last_stable_offset)
        self.high_watermark = max(self.high_watermark, found.high_watermark)

    def look(self) -> LogLook:
        return LogLook(
            start=self._first,
            next_offset=self.position,
            bounds=LogBounds(
                first_offset=self._bounds.first_offset,
                last_stable_offset=self._last_stable,
                high_watermark=max(self.high_watermark, self._last_stable),
            ),
            batches=tuple(self.batches),
            aborted=frozenset(self._aborted),
            decided_until=self._decided_until,
        )


def _look(fetcher: RawFetcher, at: Partition, *, start: LogStart, limit: int) -> LogLook:
    bounds = _bounds(fetcher, at)

    def at_time(timestamp_ms: int) -> int:
        return fetcher.list_offsets([at], timestamp_ms)[at]

    read = LogRange(first_offset_of(start, bounds, limit=limit, name=str(at), at_time=at_time), bounds)
    while not read.is_at_end and len(read.batches) < limit and read.size_bytes < MAX_LOOK_BYTES:
        fetcher.raise_if_late(f"offset {read.position} of {at}")
        isolation = read.isolation
        found = fetcher.fetch({at: read.position}, max_wait_ms=MAX_WAIT_MS, isolation=isolation).get(at)
        if found is not None:
            read.take(found, isolation)
    return read.look()


def _bounds(fetcher: RawFetcher, at: Partition) -> LogBounds:
    # In this order: records between the last two are behind a transaction that was open, also with many writes in
    # between (ADR 0018).
    earliest = fetcher.list_offsets([at], EARLIEST)[at]
    high_watermark = fetcher.list_offsets([at], LATEST)[at]
    last_stable = fetcher.list_offsets([at], LATEST, isolation=FetchIsolation.READ_COMMITTED)[at]
    return LogBounds(
        first_offset=earliest, last_stable_offset=last_stable, high_watermark=max(high_watermark, last_stable)
    )


def read_transactional_ids(
    resolved: Mapping[str, str], attempt: ConnectionAttempt, producer_ids: Collection[int]
) -> TransactionalIds:
    """Find the transactional ids of these producer ids: from `__transaction_state`, else from the coordinators.

    Raises BrokerUnreachableError, or UnavailableError if neither has them.
    """
    try:
        return TransactionalIds(_ids_in_journal(resolved, attempt.half(), set(producer_ids)))
    except BrokerUnreachableError:
        raise
    except UnavailableError as refusal:
        why = f"{transaction_state.TOPIC} could not be read: {refusal.message}"
    try:
        with TransactionClient(resolved, attempt) as client, reading_answers():
            ids, refused = client.transactional_ids(producer_ids)
    except errors.KafkaError as error:
        raise failure(attempt, "list transactions", error) from error
    if refused:
        raise UnavailableError(f"{why}; {refused[0].sentence}")
    return TransactionalIds(ids, f"transactional ids are the present ones of ListTransactions, since {why}")


def _ids_in_journal(resolved: Mapping[str, str], attempt: ConnectionAttempt, wanted: set[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for _, batch in read_logs(resolved, attempt, transaction_state.TOPIC):
        records = [] if isinstance(batch, UnreadableBatch) or batch.is_control else read_records(batch)
        for record in [] if isinstance(records, Undecodable) else records:
            state = transaction_state.decode_value(record.value)
            if not isinstance(state, TransactionState):
                continue
            for producer_id in wanted & {state.producer_id, state.previous_producer_id, state.next_producer_id}:
                name = transaction_state.decode_key(record.key or b"")
                if isinstance(name, str):
                    found[producer_id] = name
    return found
