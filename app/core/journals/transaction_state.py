"""Decode and encode the coordinator's records of a transactional id in `__transaction_state`.

Key version 0: int16 version, then the transactional id (int16 length).
Value version 0 has fixed-width lengths; version 1 (transaction.version >= 1) has compact ones and tagged fields.
A null value is a tombstone: the id has expired. Unreadable bytes give an `Undecodable`, never an exception: a journal
with records of any author is read to its end.
Source: Kafka, transaction-coordinator/src/main/resources/common/message/TransactionLog{Key,Value}.json.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import msgspec

from app.core.journals.wire_format import INT16, INT32, INT64, STRING, TOPIC_NAME, Array, Enumeration
from app.core.journals.wire_message import Field, Layout, Undecodable, message_of

TOPIC = "__transaction_state"
_KEYS_AT_HAND = 1_024


class TransactionStatus(IntEnum):
    """
    EMPTY ─▶ ONGOING ─▶ PREPARE_COMMIT ─▶ COMPLETE_COMMIT ─▶ ONGOING or EMPTY
                  └───▶ PREPARE_ABORT ──▶ COMPLETE_ABORT  ─▶ ONGOING or EMPTY
    EMPTY is written by InitProducerId. DEAD and PREPARE_EPOCH_FENCE live in the coordinator's memory only.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def word(self) -> str:
        """The name in Kafka's own tools and admin requests: `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_abort(self) -> bool:
        """True if the coordinator aborts, or has aborted, the transaction."""
        return self in ABORTS

    @property
    def is_open(self) -> bool:
        """True if it may block read_committed consumers."""
        return self in OPEN


ABORTS = (TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT)
# A tuple: used for 50,000 ids at once, and an enum's hash is slow.
OPEN = (TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
IS_OPEN = tuple(status in OPEN for status in TransactionStatus)
"""By status: several times faster than a search in OPEN."""


class TopicPartitions(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partitions: tuple[int, ...]


class TransactionState(msgspec.Struct, frozen=True, gc=False):
    """One state of one transactional id. -1 stands for "none", as in Kafka.

    partitions: None where the coordinator wrote null (nothing was added to the transaction).
    start_ms: the begin of the open (or just ended) transaction; last_update_ms: the begin of this state.
    unknown_tags: tagged fields newer than this decoder, as (tag, bytes), kept for a lossless encoding.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: tuple[TopicPartitions, ...] | None = None
    last_update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    version: int = 1

    @property
    def partition_names(self) -> tuple[str, ...]:
        """`topic-number`, each."""
        return tuple(f"{one.topic}-{number}" for one in self.partitions or () for number in one.partitions)


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the journal. `state` None is a tombstone; `timestamp_ms` is the coordinator's clock."""

    transactional_id: str
    state: TransactionState | Undecodable | None
    partition: int
    offset: int
    timestamp_ms: int


class _Key(msgspec.Struct, frozen=True, gc=False):
    transactional_id: str


_TOPIC_PARTITIONS = Layout(
    TopicPartitions,
    (Field("topic", TOPIC_NAME), Field("partitions", Array(INT32), kafka="partitionIds")),
)
_KEY = message_of(Layout(_Key, (Field("transactional_id", STRING),)))
VALUE = message_of(
    Layout(
        TransactionState,
        (
            Field("producer_id", INT64),
            Field("previous_producer_id", INT64, since=1, tag=0),
            Field("next_producer_id", INT64, since=1, tag=1),
            Field("producer_epoch", INT16),
            Field("next_producer_epoch", INT16, since=1, tag=3),
            Field("timeout_ms", INT32, kafka="transactionTimeoutMs"),
            Field("status", Enumeration(TransactionStatus, "transaction status"), kafka="transactionStatus"),
            Field("partitions", Array(_TOPIC_PARTITIONS, is_nullable=True), kafka="transactionPartitions"),
            Field("last_update_ms", INT64, kafka="transactionLastUpdateTimestampMs"),
            Field("start_ms", INT64, kafka="transactionStartTimestampMs"),
            Field("client_transaction_version", INT16, since=1, tag=2),
        ),
        stamp="version",
        keeps_unknown_tags=True,
    ),
    last_version=1,
    flexible_since=1,
)


# A transaction is several records within milliseconds, all with the same key.
@lru_cache(maxsize=_KEYS_AT_HAND)
def decode_key(data: bytes) -> str | Undecodable:
    """The transactional id that a record's key names."""
    key = _KEY.decode(data, "key")
    return key if isinstance(key, Undecodable) else key.transactional_id


def encode_key(transactional_id: str) -> bytes:
    return _KEY.encode(_Key(transactional_id), 0)


def decode_value(data: bytes | None) -> TransactionState | Undecodable | None:
    """The state in a record's value; None for a tombstone."""
    return None if data is None else VALUE.decode(data)


def encode_value(state: TransactionState) -> bytes:
    """Encode as a coordinator of `state.version` does; version 0 has no tagged fields."""
    return VALUE.encode(state, state.version)
