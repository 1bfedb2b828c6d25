"""One transactional id's states as its coordinator wrote them into `__transaction_state`."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals import transaction_state
from app.core.journals.transaction_state import TransactionState, Undecodable
from workers.loop.client_config import Config
from workers.loop.errors import kafka_call

_BATCH = 2_000
_WAIT_S = 0.1
# A request for the journal's end waits behind the current fetch.
_FETCH_WAIT_MS = 50


class IdJournal:
    """Read from the beginning of the id's partition, and then on from its last position.

    Args:
        config: of a consumer that reads uncommitted and reports the end of a partition.
    """

    def __init__(self, transactional_id: str, config: Config) -> None:
        self.states: list[TransactionState | Undecodable | None] = []
        self._transactional_id = transactional_id
        self._key = transaction_state.encode_key(transactional_id)
        self._consumer = Consumer({**config, "fetch.wait.max.ms": _FETCH_WAIT_MS})
        self._partition: TopicPartition | None = None
        self._reached = 0

    def read_on(self, timeout_s: float) -> bool:
        """Read to the journal's current end; False: it takes longer than about `timeout_s`, call it again.

        Raises:
            RetriableError: the brokers that have it do not answer.
            FatalError: it may not be read.
        """
        deadline = time.monotonic() + timeout_s
        with kafka_call(f"read {transaction_state.TOPIC}"):
            partition = self._partition = self._partition or self._assign(timeout_s)
            _first, end = self._consumer.get_watermark_offsets(partition, timeout_s)
            while self._reached < end:
                if time.monotonic() >= deadline:
                    return False
                self._take(self._consumer.consume(_BATCH, _WAIT_S))
        return True

    def close(self) -> None:
        self._consumer.close()

    def _assign(self, timeout_s: float) -> TopicPartition:
        topic = self._consumer.list_topics(transaction_state.TOPIC, timeout_s).topics[transaction_state.TOPIC]
        if topic.error is not None:
            raise KafkaException(topic.error)
        number = transaction_log_partition(self._transactional_id, len(topic.partitions))
        partition = TopicPartition(transaction_state.TOPIC, number, OFFSET_BEGINNING)
        self._consumer.assign([partition])
        return partition

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            error = message.error()
            offset = message.offset() or 0
            if error is None:
                self._reached = offset + 1
                if message.key() == self._key:
                    self.states.append(transaction_state.decode_value(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name begins so
                self._reached = offset
            else:
                raise KafkaException(error)
