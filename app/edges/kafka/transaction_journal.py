"""Read `__transaction_state` with a plain consumer: every partition, from its beginning to its present end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.core.journals import transaction_state
from app.core.journals.transaction_state import JournalRecord, Undecodable

_BATCH = 2_000


class JournalUnreadableError(Exception):
    """The journal is unreadable: no permission, no topic, or no answer from a broker; with the reason."""


def read_transaction_journal(
    client_config: Mapping[str, str], *, prefixes: tuple[str, ...] = ("",), timeout_s: float = 30.0
) -> Iterator[JournalRecord]:
    """Yield the records of all ids that begin with one of `prefixes`, in order within each journal partition.

    Nothing is committed and no group is joined. READ on the topic is enough.

    Args:
        client_config: librdkafka settings of the cluster (bootstrap.servers, security).
        timeout_s: for the whole read.

    Raises:
        JournalUnreadableError: the topic cannot be read, or its end was not reached in time.
    """
    consumer = Consumer(
        {
            **client_config,
            "group.id": "fenceline-journal-reader",
            "enable.auto.commit": False,
            # The coordinator writes the journal outside of transactions, so no LSO applies.
            "isolation.level": "read_uncommitted",
            "fetch.queue.backoff.ms": 10,
        }
    )
    deadline = time.monotonic() + timeout_s
    try:
        # The present end is requested: on a busy cluster a reader that waits for "no more" never ends.
        unfinished = _ends(consumer, timeout_s)
        consumer.assign([TopicPartition(transaction_state.TOPIC, number, OFFSET_BEGINNING) for number in unfinished])
        while unfinished:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise JournalUnreadableError(
                    f"the end of {transaction_state.TOPIC} was not reached within {timeout_s:g} s: "
                    f"{len(unfinished)} partitions are not complete"
                )
            for message in consumer.consume(_BATCH, min(left_s, 0.5)):
                error = message.error()
                if error is None:
                    if (message.offset() or 0) >= unfinished.get(message.partition() or 0, 0):
                        continue
                    record = to_record(message)
                    if record is not None and record.transactional_id.startswith(prefixes):
                        yield record
                elif not error.retriable() and error.code() != KafkaError._TRANSPORT:  # noqa: SLF001
                    raise JournalUnreadableError(f"{transaction_state.TOPIC} cannot be read: {error.str()}")
            # Positions pass compacted offsets, where no record shows that the end is reached.
            for entry in consumer.position([TopicPartition(transaction_state.TOPIC, number) for number in unfinished]):
                if entry.offset >= unfinished[entry.partition]:
                    del unfinished[entry.partition]
    except KafkaException as error:
        raise JournalUnreadableError(f"{transaction_state.TOPIC} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()


def to_record(message: Message) -> JournalRecord | None:
    """Decode one message of the journal; None for a key without a transactional id."""
    transactional_id = transaction_state.decode_key(message.key() or b"")
    if isinstance(transactional_id, Undecodable):
        return None
    return JournalRecord(
        transactional_id=transactional_id,
        state=transaction_state.decode_value(message.value()),
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
    )


def _ends(consumer: Consumer, timeout_s: float) -> dict[int, int]:
    """Return the end of every partition that is not empty."""
    topic = consumer.list_topics(transaction_state.TOPIC, timeout_s).topics[transaction_state.TOPIC]
    if topic.error is not None:
        raise JournalUnreadableError(f"{transaction_state.TOPIC} cannot be read: {topic.error.str()}")
    ends: dict[int, int] = {}
    for number in topic.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(transaction_state.TOPIC, number), timeout_s) or (0, 0)
        if high > low:
            ends[number] = high
    return ends
