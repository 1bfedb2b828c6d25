"""After a fencing: is this attempt still the one that should have the id? (rule 5)"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from app.domain import fencing, transaction_state
from app.domain.fencing import FencingCause, Verdict
from app.domain.transaction_state import TransactionState, Undecodable
from app.domain.transactional_id import transaction_log_partition
from workers.transactional.client_config import Config
from workers.transactional.errors import LoopError, kafka_call
from workers.transactional.producers import ProducerIdentity

ASK_SERVER_S = 3.0
READ_JOURNAL_S = 20.0
SETTLE_S = 2.0
_BATCH = 2_000
_Journal = list[TransactionState | Undecodable | None]


def may_rebuild(
    *,
    ask_server: Callable[[float], bool | None],
    transactional_id: str,
    identity: ProducerIdentity | None,
    journal_config: Config,
) -> tuple[bool, str]:
    """Whether the fenced producer's task may take its id again, and the reason in words.

    1. the server's word on (lease, attempt)   it knows who should run
    2. with the server away, the journal       only an abort by the coordinator and no later init may be ours
    3. nothing to be known                     no: whoever took the id would be fenced back for nothing
    """
    word = ask_server(ASK_SERVER_S)
    if word is not None:
        return word, "the server names this attempt as current" if word else "the server names another attempt"
    if identity is None:
        return False, "the server is away, and this producer's id and epoch are not known"
    try:
        verdict = ask_journal(transactional_id, identity, journal_config)
    except LoopError as error:
        return False, f"the server is away, and the journal cannot be read: {error}"
    # UNSETTLED here means: long enough after the abort nobody has initialised. Who wanted to has died in between.
    is_free = verdict.cause in (FencingCause.TIMED_OUT, FencingCause.UNSETTLED)
    return is_free, f"the server is away; {verdict.evidence}"


def ask_journal(transactional_id: str, identity: ProducerIdentity, config: Config) -> Verdict:
    """What the id's partition of `__transaction_state` says. An abort before its time is looked at again for 2 s.

    Raises LoopError when the journal cannot be read to its end.
    """
    deadline = time.monotonic() + SETTLE_S
    while True:
        history = read_history(transactional_id, config)
        verdict = fencing.judge(history, producer_id=identity.producer_id, producer_epoch=identity.epoch)
        if verdict.cause is not FencingCause.UNSETTLED or time.monotonic() >= deadline:
            return verdict


def read_history(transactional_id: str, config: Config) -> _Journal:
    """The states of one id, from the beginning of its journal partition to its end of this moment."""
    consumer = Consumer(config)
    try:
        with kafka_call(f"find {transaction_state.TOPIC}"):
            topic = consumer.list_topics(transaction_state.TOPIC, READ_JOURNAL_S).topics[transaction_state.TOPIC]
            if topic.error is not None:
                raise KafkaException(topic.error)
            partition = transaction_log_partition(transactional_id, len(topic.partitions))
            consumer.assign([TopicPartition(transaction_state.TOPIC, partition, OFFSET_BEGINNING)])
            return _read_to_end(consumer, transactional_id)
    finally:
        consumer.close()


def _read_to_end(consumer: Consumer, transactional_id: str) -> _Journal:
    key = transaction_state.encode_key(transactional_id)
    history: _Journal = []
    deadline = time.monotonic() + READ_JOURNAL_S
    while time.monotonic() < deadline:
        for message in consumer.consume(_BATCH, 0.2):
            error = message.error()
            if error is None:
                if message.key() == key:
                    history.append(transaction_state.decode_value(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name begins so
                return history
            else:
                raise KafkaException(error)
    raise LoopError(f"the end of {transaction_state.TOPIC} was not reached within {READ_JOURNAL_S:g} s")
