"""Makes the recorded journals again: `python -m tests.support.journal_recording` writes tests/domain/journals/recorded.

A broker of each version is led through all kinds of records of its two journals. The segment file is kept as the
broker wrote it, with the output of Kafka's own newest `kafka-dump-log.sh` beside it. So the decoders are compared with
Kafka itself, without a broker. Run it after a change of the embedded version.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from app.core.journals.transaction_state import TransactionState, TransactionStatus
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import KAFKA_JARS, KAFKA_VERSION, OLD_KAFKA_JARS, OLD_KAFKA_VERSION
from app.edges.kafka.transaction_journal import read_transaction_journal
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.kafka_clients import initialise
from tests.support.kafka_tools import run_tool
from tests.support.topics import create_topic
from tests.support.waiting import wait_for

RECORDED = Path(__file__).parents[1] / "core" / "journals" / "recorded"
ODD_ID = "odd ï·ид 🚀 'quotes' \"and\" \\"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
_DEADLINE_S = 60.0
_SETTINGS = {
    **TEST_BROKER_SETTINGS,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@dataclass(frozen=True)
class Version:
    """`settings` turn KIP-848 on."""

    name: str
    jars: str
    settings: dict[str, str]


VERSIONS = (
    Version(KAFKA_VERSION, KAFKA_JARS, {}),
    Version(
        OLD_KAFKA_VERSION,
        OLD_KAFKA_JARS,
        {"group.coordinator.rebalance.protocols": "classic,consumer"},
    ),
)


def record(version: Version) -> None:
    """Start a broker, play everything, stop it and keep its journals."""
    folder = Path(tempfile.mkdtemp(prefix="fenceline-recording-"))
    try:
        overrides = {**_SETTINGS, **version.settings}
        with KafkaCluster.start(jars=version.jars, overrides=overrides, data_dir=folder) as cluster:
            play(Stage(cluster.bootstrap_servers, version.jars))
            _keep(cluster.broker(1).data_dir / "data", version)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(data: Path, version: Version) -> None:
    target = RECORDED / version.name
    target.mkdir(parents=True, exist_ok=True)
    for topic, decoder in (
        ("__transaction_state", "--transaction-log-decoder"),
        ("__consumer_offsets", "--offsets-decoder"),
        ("orders.copied", "--print-data-log"),
    ):
        (segment,) = (data / f"{topic}-0").glob("*.log")
        shutil.copyfile(segment, target / f"{topic}.log")
        dump = run_tool(DUMP_LOG, "--deep-iteration", decoder, "--files", str(segment))
        # The first line names the folder of the recording.
        (target / f"{topic}.dump.txt").write_text(dump.split("\n", 1)[1], encoding="utf-8")


@dataclass(frozen=True)
class Stage:
    """Where it is played: a fresh broker, and the jars that its Java clients come from."""

    bootstrap_servers: str
    jars: str

    def producer(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
            }
        )
        initialise(producer)
        return producer

    @contextmanager
    def consumer(self, group: str, topics: list[str], **settings: str) -> Generator[Consumer]:
        """A subscribed member that has its assignment; `settings` have underscores for dots."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(topics)
        try:
            wait_for(lambda: consumer.poll(0.1) and consumer.assignment(), _DEADLINE_S, f"an assignment in {group}")
            yield consumer
        finally:
            consumer.close()

    def journal(self, transactional_id: str) -> list[TransactionState]:
        records = read_transaction_journal({"bootstrap.servers": self.bootstrap_servers}, prefixes=(transactional_id,))
        return [record.state for record in records if isinstance(record.state, TransactionState)]

    def wait_for_status(self, transactional_id: str, status: TransactionStatus) -> None:
        wait_for(
            lambda: any(state.status is status for state in self.journal(transactional_id)),
            _DEADLINE_S,
            lambda: f"{status.name} of {transactional_id}, seen {self.journal(transactional_id)}",
        )


def play(stage: Stage) -> None:
    """Everything once; one transaction is left open with pending offsets at the end."""
    create_topic(stage.bootstrap_servers, "orders", partitions=2)
    create_topic(stage.bootstrap_servers, "orders.copied", partitions=1)
    feeder = Producer({"bootstrap.servers": stage.bootstrap_servers})
    for number in range(20):
        feeder.produce("orders", f"order {number}", partition=number % 2)
    assert feeder.flush(_DEADLINE_S) == 0
    for scene in (_loop_of_transactions, _java_copier, _takeover, _timeout, _classic_group, _consumer_group, _deletion):
        scene(stage)
    _left_open(stage)


def _send(producer: Producer, value: str) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer.produce("orders.copied", value, key="key", headers=[("header", b"value")], on_delivery=delivered)
    assert producer.flush(_DEADLINE_S) == 0
    if failures:
        raise KafkaException(failures[0])


def _loop_of_transactions(stage: Stage) -> None:
    """Two commits and an abort with offsets of a classic group, and an odd id."""
    with stage.consumer("loop", ["orders"]) as consumer:
        producer = stage.producer("loop-0")
        for number, ends in enumerate(
            (Producer.commit_transaction, Producer.abort_transaction, Producer.commit_transaction)
        ):
            producer.begin_transaction()
            _send(producer, f"copy {number}")
            offsets = [TopicPartition("orders", 0, number + 1, "note"), TopicPartition("orders", 1, number + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _DEADLINE_S)
            ends(producer, _DEADLINE_S)
    odd = stage.producer(ODD_ID)
    odd.begin_transaction()
    _send(odd, "odd")
    odd.commit_transaction(_DEADLINE_S)


def _java_copier(stage: Stage) -> None:
    """Kafka's own read-process-write client: of transaction version 2 where the broker has it."""
    run_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--input-topic", "orders", "--input-partition", "0", "--output-topic", "orders.copied"),
        *("--broker-list", stage.bootstrap_servers, "--consumer-group", "copier", "--transaction-size", "4"),
        *("--transactional-id", "copier-0", "--max-messages", "10", "--use-group-metadata"),
        jars=stage.jars,
    )


def _takeover(stage: Stage) -> None:
    """A second producer of the same id ends the first one's open transaction, then one ends nothing."""
    first = stage.producer("taken-0")
    first.begin_transaction()
    _send(first, "never seen")
    second = stage.producer("taken-0")
    second.begin_transaction()
    _send(second, "seen")
    second.commit_transaction(_DEADLINE_S)
    stage.producer("taken-0")


def _timeout(stage: Stage) -> None:
    late = stage.producer("late-0", timeout_ms=1_000)
    late.begin_transaction()
    _send(late, "too late")
    stage.wait_for_status("late-0", TransactionStatus.COMPLETE_ABORT)


def _classic_group(stage: Stage) -> None:
    """Two members, one of them static; the second one leaves; plain commits."""
    settings = {"partition_assignment_strategy": "cooperative-sticky", "client_id": "teller"}
    with stage.consumer("classic", ["orders"], group_instance_id="static-1", **settings) as first:
        first.commit(
            offsets=[TopicPartition("orders", 0, 3, "plain"), TopicPartition("orders", 1, 4)], asynchronous=False
        )
        with ExitStack() as stack:
            _join(stage, stack, [first], "classic", **settings)
        _poll_until([first], lambda: len(first.assignment()) == 2, "both partitions back")


def _consumer_group(stage: Stage) -> None:
    """KIP-848: two members share, one leaves; one subscribes by a pattern."""
    if stage.jars == OLD_KAFKA_JARS:
        # Its preview of the protocol has no patterns, and librdkafka speaks only what came after it.
        run_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", stage.bootstrap_servers, "--topic", "orders", "--group", "modern"),
            *("--consumer-property", "group.protocol=consumer", "--from-beginning", "--max-messages", "20"),
            jars=stage.jars,
        )
        return
    settings = {"group_protocol": "consumer", "client_id": "modern"}
    with stage.consumer("modern", ["orders"], **settings) as first:
        first.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        with ExitStack() as stack:
            _join(stage, stack, [first], "modern", **settings)
        _poll_until([first], lambda: len(first.assignment()) == 2, "both partitions back")
    with stage.consumer("pattern", ["^ord.rs$"], **settings):
        pass
    # A classic client joins a KIP-848 group, as in a rolling upgrade.
    with stage.consumer("mixed", ["orders"], **settings) as first, ExitStack() as stack:
        _join(stage, stack, [first], "mixed", client_id="classic", partition_assignment_strategy="cooperative-sticky")


def _join(stage: Stage, stack: ExitStack, members: list[Consumer], group: str, **settings: str) -> None:
    """A member more, with one of the two partitions; the others are polled meanwhile, or they would not give it up."""
    joining = Consumer(
        {
            "bootstrap.servers": stage.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    stack.callback(joining.close)
    joining.subscribe(["orders"])
    everybody = [*members, joining]
    _poll_until(
        everybody, lambda: all(len(one.assignment()) == 1 for one in everybody), f"one partition each in {group}"
    )


def _poll_until(consumers: list[Consumer], condition: Callable[[], bool], what: str) -> None:
    def polled() -> bool:
        for consumer in consumers:
            consumer.poll(0.05)
        return condition()

    wait_for(polled, _DEADLINE_S, what)


def _deletion(stage: Stage) -> None:
    """Tombstones of a group and its offsets; not of the one whose static member stays for a session."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap_servers})
    groups = cast("dict[str, Future[None]]", admin.delete_consumer_groups(["loop"]))  # pyright: ignore[reportUnknownMemberType]
    for deleted in groups.values():
        deleted.result(_DEADLINE_S)


def _left_open(stage: Stage) -> None:
    with stage.consumer("waiting", ["orders"]) as consumer:
        producer = stage.producer("open-0")
        producer.begin_transaction()
        _send(producer, "undecided")
        producer.send_offsets_to_transaction(
            [TopicPartition("orders", 0, 7)], consumer.consumer_group_metadata(), _DEADLINE_S
        )
        # Leaves the group, and the transaction as it is: a producer that goes ends nothing.
    stage.wait_for_status("open-0", TransactionStatus.ONGOING)


if __name__ == "__main__":
    for each in VERSIONS:
        record(each)
