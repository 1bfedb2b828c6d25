"""A range of one partition, read as a `read_committed` consumer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from workers.audit.references import partition_name
from workers.audit.splits import Split

_BATCH = 2_000
_POLL_S = 0.1
_WATERMARKS_S = 10.0
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes are public
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001
_FINAL = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._BAD_MSG,  # noqa: SLF001
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


class AuditReadError(Exception):
    """A partition cannot be read; the message names it, the offset, and the client's last error."""


class SplitReader(Protocol):
    """The used part of a Consumer."""

    def assign(self, partitions: list[TopicPartition], /) -> None: ...
    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]: ...
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int] | None: ...


def consumer_config(client_config: Mapping[str, str], *, audit_id: str) -> dict[str, str | int | bool]:
    """Joins no group and commits nothing; a deleted offset is reported and not skipped."""
    return {
        "fetch.queue.backoff.ms": 10,
        # The longest wait of a fetch at the end of a partition.
        "fetch.wait.max.ms": 50,
        # Data fetched past the end of a range are discarded.
        "queued.max.messages.kbytes": 16_384,
        "check.crcs": True,
        **client_config,
        "client.id": f"fenceline-audit-{audit_id}",
        "group.id": f"fenceline-audit-{audit_id}",
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        **NEVER_CREATE_TOPICS,
    }


@contextlib.contextmanager
def reader(client_config: Mapping[str, str], *, audit_id: str) -> Generator[Consumer]:
    """A consumer that is always closed at the end."""
    consumer = Consumer(consumer_config(client_config, audit_id=audit_id))
    try:
        yield consumer
    finally:
        consumer.close()


def committed_records(
    consumer: SplitReader,
    split: Split,
    *,
    stall_s: float,
    deleted: Callable[[int, int], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[Message]]:
    """The split's records in order, a batch at a time, without control records and aborted ones.

    The end is recognised by a record behind it, or by the end of the readable log. So it must not lie behind the last
    stable offset. (`position()` does not help: after an assignment it still has its old value.)

    Args:
        deleted: called with the range of records that were deleted before they were read.

    Raises:
        AuditReadError: nothing came for `stall_s`, or the client reports that nothing will.
    """
    consumer.assign([TopicPartition(split.topic, split.partition, split.start)])
    position, moved_at, said = split.start, clock(), "the brokers returned nothing"
    while position < split.end:
        before = position
        # At most the rest of the range, so that a short one does not wait for other records.
        messages = consumer.consume(min(_BATCH, split.end - position), timeout=_POLL_S)
        records: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == _EOF:
                position = max(position, message.offset() or 0)
            elif error.code() in _OUT_OF_RANGE:
                position = _behind_deletion(consumer, split, position, error, deleted)
            elif error.code() in _FINAL:
                raise AuditReadError(_sentence(split, position, error.str()))
            else:
                said = error.str()
        if records:
            position = max(position, (records[-1].offset() or 0) + 1)
            if position > split.end:
                records = [record for record in records if (record.offset() or 0) < split.end]
            if records:
                yield records
        if position > before:
            moved_at = clock()
        elif clock() - moved_at > stall_s:
            raise AuditReadError(_sentence(split, position, f"{said} for {stall_s:g} s"))


def _behind_deletion(
    consumer: SplitReader, split: Split, position: int, error: KafkaError, deleted: Callable[[int, int], None]
) -> int:
    """Continue at the first offset that the log still has."""
    here = TopicPartition(split.topic, split.partition)
    try:
        watermarks = consumer.get_watermark_offsets(here, timeout=_WATERMARKS_S)
    except KafkaException as exception:
        raise AuditReadError(_sentence(split, position, exception.args[0].str())) from exception
    if watermarks is None or watermarks[0] <= position:
        raise AuditReadError(_sentence(split, position, error.str()))
    begin = min(watermarks[0], split.end)
    deleted(position, begin)
    here.offset = begin
    consumer.assign([here])
    return begin


def _sentence(split: Split, position: int, why: str) -> str:
    return f"{partition_name(split.topic, split.partition)} cannot be read at offset {position}: {why}"
