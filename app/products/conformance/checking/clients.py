"""The producers and consumers of a check, with confluent-kafka: each step is awaited, and every error is raised."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.kit.errors import UnavailableError
from app.products.conformance.comparing import SeenRecord, named

CALL_S = 20.0
"""The time limit of one call; after it the check is not made."""
_POLL_S = 0.05
_LINGER_S = 0.3
_FLUSH_S = 1.0


def error_of(exception: KafkaException) -> KafkaError:
    """librdkafka's error inside its exception."""
    error = exception.args[0]
    assert isinstance(error, KafkaError)  # noqa: S101 - the binding raises it with nothing else
    return error


class CheckRefusedError(Exception):
    """A refusal without which no check can be made. operation: the required permission; what: the refused step."""

    def __init__(self, error: KafkaError, *, operation: str, what: str) -> None:
        super().__init__(f"{what}: {error.str()}")
        self.error = error
        self.operation = operation
        self.what = what


class Writer:
    """A producer. With a transactional id it writes in transactions, without one its records count at once."""

    def __init__(self, settings: Mapping[str, Any], *, transactional_id: str | None = None) -> None:
        self.transactional_id = transactional_id
        given = {"linger.ms": 0, **settings, **NEVER_CREATE_TOPICS}
        if transactional_id is not None:
            given["transactional.id"] = transactional_id
        self.producer = Producer(given)
        self._refused: KafkaError | None = None
        self._is_open = False
        if transactional_id is not None:
            self._init()

    def begin(self) -> None:
        self.producer.begin_transaction()
        self._is_open = True

    def send(self, topic: str, *values: str, partition: int = 0, key: str | None = None) -> None:
        """Send each value as a batch of its own, acknowledged before the next. Raises KafkaException for an error."""
        self._refused = None
        for value in values:
            self.producer.produce(topic, value, key=key, partition=partition, on_delivery=self._delivered)
            deadline = time.monotonic() + CALL_S
            while self.producer.flush(_FLUSH_S):
                self._raise_if_broken()
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{topic}-{partition} has not acknowledged a record within {CALL_S:g} s")
            if self._refused is not None:
                # A broken transaction may report its records as purged, which is not the cause.
                self._raise_if_broken()
                raise KafkaException(self._refused)

    def send_offsets(self, offsets: Sequence[TopicPartition], metadata: Any) -> None:
        """Send offsets. Raises KafkaException if the group rejects them, RefusedError for unreadable topics."""
        try:
            self.producer.send_offsets_to_transaction(list(offsets), metadata, CALL_S)
        except KafkaException as error:
            why = error_of(error)
            if why.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise CheckRefusedError(why, operation="Read", what="offsets were not accepted") from error
            raise

    def commit(self) -> None:
        self.producer.commit_transaction(CALL_S)
        self._is_open = False

    def abort(self) -> None:
        self.producer.abort_transaction(CALL_S)
        self._is_open = False

    def close(self) -> None:
        """Abort an open transaction, if the producer still may."""
        if self._is_open:
            # A fenced producer may not, and its transaction has ended.
            with contextlib.suppress(KafkaException):
                self.producer.abort_transaction(CALL_S)
        self.producer.purge()

    def _init(self) -> None:
        """Initialise, with retries: the first coordinator lookup of a cluster creates `__transaction_state`."""
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                self.producer.init_transactions(CALL_S)
                return
            except KafkaException as error:
                if not error_of(error).retriable() or time.monotonic() > deadline:
                    raise

    def _raise_if_broken(self) -> None:
        """Abort. The records of a broken transaction stay queued without a report until then."""
        if self._is_open:
            try:
                # Refused while a transaction is open; the error of a broken one names the cause.
                self.producer.begin_transaction()
            except KafkaException as error:
                if error_of(error).code() != KafkaError._STATE:  # noqa: SLF001 - a public name of librdkafka
                    raise

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._refused = self._refused or error


class TopicReader:
    """A consumer of all partitions of a topic from their beginning. `seen` has the received records in order.

    within_s: the time limit for expected records.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str, *, partitions: int, within_s: float = CALL_S) -> None:
        self.topic = topic
        self._within_s = within_s
        self.seen: list[SeenRecord] = []
        self._is_closed = False
        self._consumer = Consumer(
            {
                # No check commits with it, but the client requires a name.
                "group.id": topic,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                **settings,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def read(self, records: int, *, within_s: float | None = None) -> list[SeenRecord]:
        """Return the records so far, once there are enough and no more follow, or the time is over."""
        deadline = time.monotonic() + (within_s or self._within_s)
        while len(self.seen) < records and time.monotonic() < deadline:
            self._poll()
        return self.linger()

    def wait_for(self, *values: str) -> float:
        """Wait until all of them were received, and return the seconds. Raises UnavailableError when late."""
        began = time.monotonic()
        deadline = began + self._within_s
        while missing := [value for value in values if value not in [record.value for record in self.seen]]:
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self.topic}: {named(missing)} not shown within {self._within_s:g} s")
            self._poll()
        return time.monotonic() - began

    def linger(self, longer_s: float = 0.0) -> list[SeenRecord]:
        """Return the records so far, after a further wait of this time."""
        deadline = time.monotonic() + _LINGER_S + longer_s
        while time.monotonic() < deadline:
            self._poll()
        return self.seen

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close()

    def _poll(self) -> None:
        for message in self._consumer.consume(100, _POLL_S):
            error = message.error()
            if error is not None:
                raise CheckRefusedError(error, operation="Read", what=f"{self.topic} was not read")
            value = message.value() or b""
            self.seen.append(SeenRecord(message.partition() or 0, message.offset() or 0, value.decode()))
