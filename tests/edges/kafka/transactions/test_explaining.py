"""Blocked consumers on a real broker: the diagnosis is right, and Kafka's own tools agree."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from app.core.blocked.diagnosis import AdviceVerdict, Explanation
from app.core.blocked.facts import KnownTransaction
from app.core.blocked.service.explaining import explain, explain_group, explain_topic
from app.core.clusters.partition import Partition
from app.core.fencing.fencing_event import FencingCause
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.client import TransactionClient
from app.edges.kafka.transactions.looking import now_ms
from app.kit.errors import InvalidError, NotFoundError
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.hanging import make_hanging
from tests.support.journal_events import causes_of, ids_of
from tests.support.kafka_clients import Members, Writer
from tests.support.kafka_tools import rows, run_tool
from tests.support.topics import unique_name
from tests.support.waiting import wait_for_async

pytestmark = pytest.mark.slow

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


def ask_tool(scene: Scene, *arguments: str) -> list[dict[str, str]]:
    """The rows that `kafka-transactions.sh` prints."""
    return rows(run_tool(TRANSACTIONS, "--bootstrap-server", scene.bootstrap_servers, *arguments))


async def look(scene: Scene, topic: str) -> Explanation:
    return await explain_topic(scene.brokers, scene.connection, topic, scene.asked)


@pytest.mark.core
async def test_producer_left_open_is_named_and_when_it_times_out_readers_go_on(scene: Scene) -> None:
    topic = scene.topic()
    scene.write(topic, records=2)
    name, producer = scene.leave_open(topic, records=3, timeout_ms=4_000)
    scene.write(topic)
    found = await look(scene, topic)
    (one,) = found.partitions
    assert one.verdict is AdviceVerdict.WAIT
    assert one.headline.startswith(
        f"read_committed consumers of {topic}-0 are blocked at offset 2. 4 records are behind it, the oldest stamped"
    )
    assert f"which is {name}, ongoing for" in one.links[-1].sentence
    assert scene.committed_values(Partition(topic, 0)) == [b"plain"] * 2

    async def is_free() -> bool:
        return (await look(scene, topic)).verdict is AdviceVerdict.FREE

    await wait_for_async(is_free, 20, f"{topic} read through after the timeout")
    assert scene.decided_values(Partition(topic, 0)) == [b"plain"] * 3
    assert causes_of(ids_of(scene.bootstrap_servers)[name]) == [FencingCause.TIMEOUT]
    del producer


async def test_partition_in_which_nothing_waits_says_so(scene: Scene) -> None:
    topic = scene.topic(partitions=2)
    scene.write(topic)
    found = await look(scene, topic)
    assert (found.verdict, len(found.partitions)) == (AdviceVerdict.FREE, 2)


async def test_the_kind_of_a_target_is_found_out(scene: Scene) -> None:
    topic = scene.topic(partitions=2)
    found = await explain(scene.brokers, scene.connection, f"{topic}:1", scene.asked)
    assert [one.subject for one in found.partitions] == [f"{topic}-1"]
    found = await explain(scene.brokers, scene.connection, topic, scene.asked)
    assert len(found.partitions) == 2
    with pytest.raises(InvalidError, match="has partitions 0 to 1 only"):
        await explain(scene.brokers, scene.connection, f"{topic}:7", scene.asked)
    with pytest.raises(NotFoundError, match="no group and no topic no-such-name exists"):
        await explain(scene.brokers, scene.connection, "no-such-name", scene.asked)


async def test_lag_of_a_group_is_distinguished(scene: Scene) -> None:
    """Readable now, behind an open transaction, only markers: by what was committed."""
    topic, elsewhere, group = scene.topic(), scene.topic(), unique_name("g")
    at = Partition(topic, 0)
    _, done = scene.leave_open(topic, records=2)
    done.commit_transaction(20)
    commit = Writer(scene.connection)

    async def committed_at(offset: int) -> Explanation:
        commit.begin(elsewhere, records=1)
        commit.send_offset(group, at, offset)
        commit.commit()
        return await explain_group(scene.brokers, scene.connection, group, scene.asked)

    found = await committed_at(0)
    (one,) = found.partitions
    assert (one.verdict, one.headline) == (
        AdviceVerdict.NO_MEMBERS,
        f"2 records of {topic}-0 are readable and not committed.",
    )
    found = await committed_at(2)
    assert found.partitions[0].verdict is AdviceVerdict.ONLY_MARKERS
    name, still_open = scene.leave_open(topic, timeout_ms=900_000)
    found = await explain_group(scene.brokers, scene.connection, group, scene.asked)
    assert found.partitions[0].verdict is AdviceVerdict.FENCE
    assert name in found.partitions[0].links[-1].sentence
    still_open.abort_transaction(20)


async def test_lagging_member_and_blocked_member_are_distinguished(scene: Scene) -> None:
    topic, group = scene.topic(), unique_name("g")
    scene.write(topic, records=5)
    writer = Writer(scene.connection)
    writer.begin(scene.topic(), records=1)
    writer.send_offset(group, Partition(topic, 0), 1)
    writer.commit()
    members = Members(scene.connection)
    members.join(group, topic, protocol="classic", client_id="slow")
    try:
        found = await explain_group(scene.brokers, scene.connection, group, scene.asked)
        assert found.partitions[0].verdict is AdviceVerdict.BEHIND
        assert found.links[0].sentence == f"the group {group} is Stable with 1 member"
    finally:
        members.leave()


async def test_pending_offset_is_led_back_to_its_transaction(scene: Scene) -> None:
    topic, output, group = scene.topic(), scene.topic(), unique_name("g")
    scene.write(topic, records=5)
    writer = Writer(scene.connection)
    writer.begin(output, records=1)
    writer.send_offset(group, Partition(topic, 0), 3)
    found = await explain_group(scene.brokers, scene.connection, group, scene.asked)
    (one,) = found.partitions
    assert "A new owner of" in one.headline
    assert "has offset 3 pending" in one.links[1].sentence
    assert one.verdict is AdviceVerdict.WAIT
    writer.commit()

    async def is_stable() -> bool:
        return (
            await explain_group(scene.brokers, scene.connection, group, scene.asked)
        ).verdict is AdviceVerdict.NO_MEMBERS

    await wait_for_async(is_stable, 10, f"the offsets of {group} to be stable")


async def test_hanging_transaction_is_what_find_hanging_calls_so(scene: Scene) -> None:
    topic = scene.topic()
    at = Partition(topic, 0)
    make_hanging(scene.bootstrap_servers, at, unique_name("late"))
    name, alive = scene.leave_open(topic)
    found = await look(scene, topic)
    (one,) = found.partitions
    assert one.verdict is AdviceVerdict.END
    with TransactionClient(scene.connection, ConnectionAttempt(scene.bootstrap_servers, 20)) as client:
        opened = client.open_transactions([at])[at]
    assert isinstance(opened, tuple)
    hanging = min(opened, key=lambda row: row.start_offset)
    (theirs,) = ask_tool(scene, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    assert theirs == {
        "Topic": topic,
        "Partition": "0",
        "ProducerId": str(hanging.producer_id),
        "ProducerEpoch": str(hanging.producer_epoch),
        "CoordinatorEpoch": str(hanging.coordinator_epoch),
        "StartOffset": str(hanging.start_offset),
        "LastTimestamp": str(hanging.last_ms),
        # Whole minutes since the last record.
        "Duration(min)": "0",
    }
    assert f"--start-offset {hanging.start_offset}" in one.commands[1]
    assert name not in one.links[-1].sentence
    alive.abort_transaction(20)


def listed_row(known: KnownTransaction) -> dict[str, str]:
    """As `kafka-transactions.sh list` has it."""
    return {
        "TransactionalId": known.transactional_id,
        "Coordinator": str(known.coordinator_id),
        "ProducerId": str(known.producer_id),
        "TransactionState": known.state,
    }


async def test_answers_are_those_of_kafkas_own_tool_field_by_field(scene: Scene) -> None:
    topic = scene.topic(partitions=2)
    at = Partition(topic, 0)
    name, producer = scene.leave_open(topic, records=2)
    with TransactionClient(scene.connection, ConnectionAttempt(scene.bootstrap_servers, 20)) as client:
        opened = client.open_transactions([at])[at]
        known = client.describe_transactions([name, "nobody-has-this"])
        listed, refused = client.transactional_ids()
        everybody = client.describe_transactions(list(listed.values()))
    assert listed.keys() == {one.producer_id for one in everybody.values() if isinstance(one, KnownTransaction)}
    assert isinstance(opened, tuple)
    (row,) = opened
    (theirs,) = ask_tool(scene, "describe-producers", "--topic", topic, "--partition", "0")
    assert theirs == {
        "ProducerId": str(row.producer_id),
        "ProducerEpoch": str(row.producer_epoch),
        "LatestCoordinatorEpoch": str(row.coordinator_epoch),
        "LastSequence": str(row.last_sequence),
        "LastTimestamp": str(row.last_ms),
        "CurrentTransactionStartOffset": str(row.start_offset),
    }
    mine = known[name]
    assert isinstance(mine, KnownTransaction)
    assert known["nobody-has-this"] is None
    before_ms = now_ms()
    (described,) = ask_tool(scene, "describe", "--transactional-id", name)
    assert before_ms <= mine.start_ms + int(described["TransactionDurationMs"]) <= now_ms()
    assert described | {"TransactionDurationMs": ""} == {
        "CoordinatorId": str(mine.coordinator_id),
        "TransactionalId": name,
        "ProducerId": str(mine.producer_id),
        "ProducerEpoch": str(mine.producer_epoch),
        "TransactionState": mine.state,
        "TransactionTimeoutMs": str(mine.timeout_ms),
        "CurrentTransactionStartTimeMs": str(mine.start_ms),
        "TransactionDurationMs": "",
        "TopicPartitions": ",".join(f"{name}-{number}" for name, number in mine.partitions),
    }
    assert not refused
    assert {row["TransactionalId"]: row for row in ask_tool(scene, "list")} == {
        name: listed_row(one) for name, one in everybody.items() if isinstance(one, KnownTransaction)
    }
    producer.abort_transaction(20)


async def test_looking_for_a_group_makes_no_topic_on_a_cluster_that_never_had_one() -> None:
    """FindCoordinator creates `__consumer_offsets`; a diagnosis changes nothing."""
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as cluster:
        fresh = Scene(cluster.bootstrap_servers)
        with pytest.raises(NotFoundError, match="no group and no topic"):
            await explain(fresh.brokers, fresh.connection, "nobody", fresh.asked)
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=20).topics
        assert "__consumer_offsets" not in topics
