"""What benchmarks of the observer are measured under: 2,000 transactions a second in a broker's own journal.

`python -m bench.journal_load SERVERS SECONDS [--beside]` writes for so long, prints how many transactions it were, and
how many real ones, and ends. What is written are the records of whole transactions, as coordinators write them, and
some of a probe: an id whose every record carries another time, so that it can be told which of them a reader has seen.
`--beside`: a transactional producer writes real ones too, a commit every 100 ms.
"""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import (
    TOPIC,
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    decode_value,
    encode_key,
    encode_value,
)

TRANSACTIONS_PER_S = 2_000
IDS = 2_000
PROBE = "a.probe"
RECORDS_PER_TRANSACTION = 4
_PROBE_EVERY_S = 0.037
_TICK_S = 0.005
_COMMIT_EVERY_S = 0.1
_RECORDS_PER_COMMIT = 500
_BESIDE = "beside"
_LIFE = (
    TransactionStatus.ONGOING,
    TransactionStatus.ONGOING,
    TransactionStatus.PREPARE_COMMIT,
    TransactionStatus.COMPLETE_COMMIT,
)


def prepare(bootstrap_servers: str) -> None:
    """The journal and the topic of the real transactions exist; the broker stamps the journal at each append."""
    # A first transaction makes the journal.
    first = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "first"})
    first.init_transactions(30)
    topic = ConfigResource(ResourceType.TOPIC, TOPIC)
    setting = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    topic.add_incremental_config(setting)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    done = admin.incremental_alter_configs([topic]) | admin.create_topics([NewTopic(_BESIDE, 4, 1)])
    for one in done.values():
        one.result(30)


@contextmanager
def journal_load(bootstrap_servers: str, seconds: float, *, beside: bool) -> Generator[subprocess.Popen[str]]:
    """A process that writes; it ends by itself, and with the context."""
    argv = [sys.executable, "-m", "bench.journal_load", bootstrap_servers, str(seconds)]
    with subprocess.Popen([*argv, "--beside"] if beside else argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def appended_ms(bootstrap_servers: str) -> dict[int, int]:
    """When the broker appended each of the probe's records, by the time that the record itself carries."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench", "enable.auto.commit": False})
    at = At(TOPIC, transaction_log_partition(PROBE), 0)
    found: dict[int, int] = {}
    try:
        _, end = consumer.get_watermark_offsets(at, 10)
        consumer.assign([at])
        key, offset = encode_key(PROBE), -1
        while offset < end - 1:
            for message in consumer.consume(5_000, 10):
                error = message.error()
                assert error is None, error
                offset = message.offset() or 0
                state = decode_value(message.value()) if message.key() == key else None
                if isinstance(state, TransactionState):
                    found[state.last_update_ms] = message.timestamp()[1]
    finally:
        consumer.close()
    return found


def write(bootstrap_servers: str, seconds: float) -> int:
    """Write whole transactions at the rate, evenly; how many it were."""
    # Brokers let no client write into their journals.
    settings: dict[str, str | int] = {"client.id": "__admin_client", "linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    began = time.monotonic()
    written = probes = 0
    while (passed := time.monotonic() - began) < seconds:
        while written < passed * TRANSACTIONS_PER_S:
            number = written % IDS
            for status in _LIFE:
                _produce(producer, f"fl.t.replayed.{number}.0", _state(number, status))
            written += 1
        if probes < passed / _PROBE_EVERY_S:
            _produce(producer, PROBE, _state(IDS, _LIFE[-1]))
            probes += 1
        producer.poll(0)
        time.sleep(_TICK_S)
    assert producer.flush(30) == 0
    return written


def _produce(producer: Producer, name: str, state: TransactionState) -> None:
    producer.produce(TOPIC, key=encode_key(name), value=encode_value(state), partition=transaction_log_partition(name))


def _state(number: int, status: TransactionStatus) -> TransactionState:
    now_ms = int(time.time() * 1000)
    partitions = (TopicPartitions("orders.copied", (number % 12,)), TopicPartitions("__consumer_offsets", (3,)))
    return TransactionState(number, 0, 60_000, status, partitions, now_ms, now_ms, client_transaction_version=2)


def commit_beside(bootstrap_servers: str, seconds: float) -> int:
    """A producer that commits every 100 ms, as a pipeline's task does; how often it did."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": _BESIDE})
    producer.init_transactions(30)
    until = time.monotonic() + seconds
    committed = 0
    while time.monotonic() < until:
        next_at = time.monotonic() + _COMMIT_EVERY_S
        producer.begin_transaction()
        for _ in range(_RECORDS_PER_COMMIT):
            producer.produce(_BESIDE, value=b"x" * 100)
        producer.commit_transaction(30)
        committed += 1
        time.sleep(max(0.0, next_at - time.monotonic()))
    return committed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--beside", action="store_true")
    said = parser.parse_args()
    with ThreadPoolExecutor() as threads:
        beside = threads.submit(commit_beside, said.servers, said.seconds) if said.beside else None
        written = write(said.servers, said.seconds)
    print(written, beside.result() if beside else 0)


if __name__ == "__main__":
    main()
