"""The producer of a task, by guarantee: one that writes in transactions, and one that does not.

Both offer the same to a checkpoint, so that the rules of ownership are written once:

  begin           from here on records belong to the checkpoint
  write_…         enqueue
  flush           no delivery is open any more
  send_offsets    the input offsets join the outputs
  commit          both become visible; after an error its outcome may be unknown. `confirmed` is called once the broker
                  has confirmed it: before it returns (transactional), or in a later poll (at least once)
  abort           neither does (transactional), or it is simply not committed (at least once)
  discard         release it at once, with all its queued records
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from workers.loop.client_config import Config
from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError, RetriableError, kafka_call
from workers.loop.producing.statistics import Slowness, Statistics
from workers.loop.records import writing
from workers.loop.records.polled import Writable
from workers.loop.records.writing import UnfitError
from workers.loop.slices import CallPatience, in_slices
from workers.transforms import Output

_MESSAGE_TIMEOUT_MS = 300_000
"""librdkafka's default."""


class SendsFor(Protocol):
    """The source of the group metadata for offsets: a member with its generation, or the group alone."""

    def consumer_group_metadata(self) -> object: ...


class TaskProducer(Protocol):
    """See the module's docstring; every method raises the types of workers.loop.errors only."""

    def init(self, timeout_s: float) -> None: ...
    def begin(self) -> None: ...
    def write_records(self, records: Writable, *, topic: str, keep_partition: bool) -> None: ...
    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None: ...
    def flush(self, *, patience: CallPatience) -> None: ...
    def send_offsets(self, offsets: list[TopicPartition], sends_for: SendsFor, *, patience: CallPatience) -> None: ...
    def commit(self, *, patience: CallPatience, confirmed: Callable[[], None]) -> None: ...
    def abort(self, *, patience: CallPatience) -> None: ...
    def discard(self) -> None: ...
    def partition_count(self, topic: str, timeout_s: float) -> int: ...
    def identity(self, *, timeout_s: float) -> ProducerIdentity | None: ...

    def slowness(self) -> Slowness:
        """The slowness of the outputs since `begin`, without a request or a wait."""
        ...

    def transaction_since(self, opened_at: float) -> float | None:
        """The time since which the brokers have the transaction of a checkpoint opened then; None: not yet."""
        ...

    def is_full(self, records: int, *, most: int) -> bool:
        """True if a checkpoint of so many records should end; `most`: how many may be in a transaction."""
        ...

    @property
    def may_have_bumped(self) -> bool:
        """True if the client may have another epoch by now than `identity` reports, by an init of its own (KIP-360)."""
        ...


class QueueingProducer:
    """The common part of both: the client and its queue."""

    def __init__(self, producer: Producer, statistics: Statistics, config: Config) -> None:
        self._producer: Producer | None = producer
        self._statistics = statistics
        self._written = 0
        self._undelivered: int | None = None
        # After that every queued record has failed, and a longer wait for room is useless.
        self._room_within_s = int(config.get("message.timeout.ms", _MESSAGE_TIMEOUT_MS)) / 1000

    @property
    def live(self) -> Producer:
        if self._producer is None:
            raise FatalError("this producer has been discarded")
        return self._producer

    def write_records(self, records: Writable, *, topic: str, keep_partition: bool) -> None:
        self._written += len(records)
        try:
            records.write(self.live, topic=topic, keep_partition=keep_partition, room_within_s=self._room_within_s)
        except UnfitError:
            # None of them was enqueued; those that can be carried come again.
            self._written -= len(records)
            raise

    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None:
        self._written += len(outputs)
        writing.write_outputs(self.live, outputs, topic=topic, room_within_s=self._room_within_s)

    def flush(self, *, patience: CallPatience) -> None:
        """Wait until every record is delivered or has failed; AbortableError when its patience ends before."""

        def flush_once(timeout_s: float) -> None:
            with kafka_call("flush the outputs"):
                waiting = self.live.flush(timeout_s)
            if waiting:
                self._raise_if_broken()
                # Timed-out records leave the queue: the last number before that shows the cause.
                self._undelivered = waiting
                self._statistics.keep()
                raise RetriableError(f"{waiting} outputs are not delivered yet")

        try:
            in_slices(flush_once, patience)
        except RetriableError as error:
            raise AbortableError(
                f"could not flush the outputs within {patience.bound_s:.1f} s: {error}",
                code=KafkaError._TIMED_OUT,  # noqa: SLF001 - public, in spite of its name
            ) from error

    def _raise_if_broken(self) -> None:
        """Raise the reason why queued records will never be delivered, where one is known."""

    def count_anew(self) -> None:
        """Begin to count the records of another checkpoint."""
        self._written, self._undelivered = 0, None
        self._statistics.forget()

    def slowness(self) -> Slowness:
        undelivered = self._written if self._undelivered is None else min(self._undelivered, self._written)
        delivered = 1 - undelivered / self._written if self._written else 0.0
        told = f"{self._written - undelivered:,} of {self._written:,} outputs were delivered in time"
        known = self._statistics.cause()
        return Slowness(delivered, told if known is None else f"{told}; {known}")

    def discard(self) -> None:
        """Release the client without waiting for the broker; queued and unanswered records are dropped here.

        Not `close()`: that would abort a transaction whose outcome must not be touched, and wait for deliveries.
        """
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def transaction_since(self, opened_at: float) -> float | None:
        return opened_at

    def is_full(self, records: int, *, most: int) -> bool:
        return records >= most

    def partition_count(self, topic: str, timeout_s: float) -> int:
        """The number of partitions of `topic`; 0 when the broker does not know it."""
        with kafka_call(f"look up {topic}"):
            found = self.live.list_topics(topic, timeout_s).topics[topic]
            if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(found.error)
        return len(found.partitions)
