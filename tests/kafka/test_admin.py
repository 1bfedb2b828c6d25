"""The Brokers port against a real broker."""

import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from app.domain.errors import BrokerUnreachableError, ConflictError, InvalidError, UnavailableError
from app.embedded.kafka import KafkaCluster
from app.kafka import group_client
from app.kafka.admin import KafkaBrokers
from app.kafka.attempt import Attempt
from app.ports.brokers import Connection, GroupDescription, TopicPartition
from tests.conftest import MakeTopic
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.topics import unique_name
from tests.support.waiting import wait_for, wait_for_async

Protocol = Literal["classic", "consumer"]
# The clients of the tests themselves; librdkafka prints each connection that the stopping broker closes.
QUIET: dict[str, Any] = {"log_level": 0}
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture
async def brokers() -> AsyncGenerator[KafkaBrokers]:
    made = KafkaBrokers(environment={}, secrets_dir=None)
    yield made
    await made.close()


@pytest.fixture
def connection(kafka: KafkaCluster) -> Connection:
    return {"bootstrap.servers": kafka.bootstrap_servers}


class Writer:
    """A producer whose transactions a test opens and ends by hand."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._producer = Producer({**connection, **QUIET, "transactional.id": unique_name("tx")})
        self._producer.init_transactions(10)

    def begin(self, topic: str, *, records: int) -> None:
        self._producer.begin_transaction()
        for number in range(records):
            self._producer.produce(topic, str(number).encode(), partition=0)
        self._producer.flush(10)

    def send_offset(self, group: str, at: TopicPartition, offset: int) -> None:
        """As a consumer that never subscribed: the broker asks for no membership."""
        consumer = Consumer({**self._connection, **QUIET, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([ClientPartition(*at, offset)], metadata, 10)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(10)

    def abort(self) -> None:
        self._producer.abort_transaction(10)


@pytest.fixture
def writer(connection: Connection) -> Writer:
    return Writer(connection)


def write(connection: Connection, topic: str, *, records: int, timestamp_ms: int = 0) -> None:
    """Records one second apart from `timestamp_ms` on, all in partition 0."""
    producer = Producer({**connection, **QUIET})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=0, timestamp=timestamp_ms + number * 1000)
    assert producer.flush(10) == 0


class Members:
    """Consumers that are in a group until the test is over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumers: list[Consumer] = []

    def join(self, group: str, topic: str, *, protocol: Protocol, client_id: str) -> None:
        settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol, "client.id": client_id}
        if protocol == "classic":
            settings["session.timeout.ms"] = 6000
        consumer = Consumer({**self._connection, **QUIET, **settings})
        self._consumers.append(consumer)
        consumer.subscribe([topic])

        def is_member() -> bool:
            # All of them: a classic group waits for every member before it gives partitions to one.
            for each in self._consumers:
                each.poll(0.02)
            return bool(consumer.assignment())

        wait_for(is_member, 30, f"{client_id} having partitions of {topic} in {group}")

    def leave(self) -> None:
        while self._consumers:
            self._consumers.pop().close()


@pytest.fixture
def members(connection: Connection) -> Generator[Members]:
    made = Members(connection)
    yield made
    made.leave()


async def test_cluster_is_described_with_its_id_and_advertised_brokers(
    brokers: KafkaBrokers, connection: Connection, kafka: KafkaCluster
) -> None:
    found = await brokers.describe_cluster(connection)
    assert found.cluster_id == kafka.cluster_id
    assert [f"{broker.host}:{broker.port}" for broker in found.brokers] == kafka.bootstrap_servers.split(",")
    assert found.controller_id in {broker.id for broker in found.brokers}


async def test_facts_tell_the_brokers_version_and_limits(brokers: KafkaBrokers, connection: Connection) -> None:
    facts = await brokers.facts(connection, topics=())
    assert facts.broker_version is not None
    # The embedded broker is a 4.x.
    assert facts.broker_version >= (4, 0)
    assert facts.offers_consumer_protocol is True
    assert facts.group_min_session_timeout_ms == int(TEST_BROKER_SETTINGS["group.min.session.timeout.ms"])
    assert facts.consumer_group_session_timeout_ms == int(TEST_BROKER_SETTINGS["group.consumer.session.timeout.ms"])
    assert facts.group_max_session_timeout_ms is not None
    assert facts.group_max_session_timeout_ms > int(TEST_BROKER_SETTINGS["group.min.session.timeout.ms"])
    assert facts.transaction_max_timeout_ms == 900_000


async def test_facts_describe_the_topics_that_exist_and_leave_out_the_others(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3, min_insync_replicas="2")
    facts = await brokers.facts(connection, topics=[topic, unique_name("absent")])
    assert list(facts.topics) == [topic]
    assert facts.topics[topic].partitions == 3
    assert facts.topics[topic].replication_factor == 1
    assert facts.topics[topic].min_insync_replicas == 2


async def test_all_topics_are_listed_but_internal_ones(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(partitions=2)
    writer.begin(topic, records=1)
    writer.commit()
    found = await brokers.topics(connection)
    assert found[topic].partitions == 2
    # The transaction above has made __transaction_state.
    assert not [name for name in found if name.startswith("__")]


@both_protocols
async def test_members_that_are_not_ours_are_told_from_ours(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, members: Members, protocol: Protocol
) -> None:
    topic, group = make_topic(partitions=2), unique_name("g")
    members.join(group, topic, protocol=protocol, client_id="fenceline-orders-1")
    members.join(group, topic, protocol=protocol, client_id="stranger")
    facts = await brokers.facts(connection, topics=(), groups=[group], own_client_ids=["fenceline-orders-"])
    assert [member.client_id for member in facts.foreign_members[group]] == ["stranger"]
    everybody = await brokers.facts(connection, topics=(), groups=[group])
    assert {member.client_id for member in everybody.foreign_members[group]} == {"fenceline-orders-1", "stranger"}


@both_protocols
async def test_group_is_described_by_its_own_protocol_until_its_members_left(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, members: Members, protocol: Protocol
) -> None:
    topic, group = make_topic(), unique_name("g")
    members.join(group, topic, protocol=protocol, client_id="one")

    async def is_stable() -> GroupDescription | None:
        found = await brokers.describe_group(connection, group)
        return found if found.state == "Stable" else None

    found = await wait_for_async(is_stable, 10, f"a stable group {group}")
    assert found is not None
    assert found.protocol == protocol
    assert [(member.client_id, member.host) for member in found.members] == [("one", "127.0.0.1")]
    members.leave()
    empty = await brokers.describe_group(connection, group)
    assert (empty.state, empty.protocol, empty.members) == ("Empty", protocol, ())


async def test_group_that_does_not_exist_is_dead(brokers: KafkaBrokers, connection: Connection) -> None:
    group = unique_name("g")
    found = await brokers.describe_group(connection, group)
    assert found == GroupDescription(group=group, state="Dead", protocol="", members=())
    assert await brokers.committed_offsets(connection, group) == {}


async def test_last_stable_offset_stays_behind_an_open_transaction(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic()
    at = TopicPartition(topic, 0)
    write(connection, topic, records=3)
    writer.begin(topic, records=2)
    open_ = (await brokers.offsets(connection, [at]))[at]
    assert (open_.earliest, open_.last_stable, open_.high_watermark) == (0, 3, 5)
    writer.commit()

    async def is_ended() -> bool:
        ended = (await brokers.offsets(connection, [at]))[at]
        # Five records and the marker, which is written a moment after the commit is answered.
        return (ended.last_stable, ended.high_watermark) == (6, 6)

    await wait_for_async(is_ended, 10, "both ends behind the marker of the committed transaction")


async def test_offsets_of_a_partition_that_is_not_there_are_refused_by_name(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with pytest.raises(UnavailableError, match=f"{topic}-7"):
        await brokers.offsets(connection, [TopicPartition(topic, 0), TopicPartition(topic, 7)])
    assert await brokers.offsets(connection, []) == {}


async def test_offset_at_a_timestamp_is_the_first_at_or_after_it(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    at = TopicPartition(topic, 0)
    now_ms = int(time.time() * 1000) - 60_000
    write(connection, topic, records=4, timestamp_ms=now_ms)
    expected = {now_ms + 1000: 1, now_ms + 1001: 2, now_ms + 3001: 4, 0: 0, -1: 0}
    found = {
        timestamp_ms: (await brokers.offsets_at(connection, [at], timestamp_ms=timestamp_ms))[at]
        for timestamp_ms in expected
    }
    assert found == expected


async def test_committed_offsets_are_without_what_an_open_transaction_has_pending(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic, group = make_topic(), unique_name("g")
    at = TopicPartition(topic, 0)
    await brokers.alter_offsets(connection, group, {at: 1})
    writer.begin(topic, records=1)
    writer.send_offset(group, at, 9)
    assert await brokers.committed_offsets(connection, group) == {at: 1}
    writer.commit()

    async def is_nine() -> bool:
        return await brokers.committed_offsets(connection, group) == {at: 9}

    # The commit is answered when it is decided; the group's coordinator gets the marker a moment later.
    await wait_for_async(is_nine, 10, "the offset of the committed transaction")


@both_protocols
async def test_offsets_are_not_moved_while_the_group_has_members(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, members: Members, protocol: Protocol
) -> None:
    topic, group = make_topic(), unique_name("g")
    at = TopicPartition(topic, 0)
    members.join(group, topic, protocol=protocol, client_id="still-here")
    with pytest.raises(ConflictError, match=r"still-here on 127\.0\.0\.1"):
        await brokers.alter_offsets(connection, group, {at: 0})
    members.leave()
    await brokers.alter_offsets(connection, group, {at: 0})
    assert await brokers.committed_offsets(connection, group) == {at: 0}


async def test_offsets_are_not_moved_under_an_open_transaction(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic, group = make_topic(), unique_name("g")
    at = TopicPartition(topic, 0)
    writer.begin(topic, records=1)
    writer.send_offset(group, at, 9)
    with pytest.raises(ConflictError, match=f"open transaction.*{topic}-0"):
        await brokers.alter_offsets(connection, group, {at: 0})
    writer.abort()

    async def is_moved() -> bool:
        try:
            await brokers.alter_offsets(connection, group, {at: 0})
        except ConflictError:
            return False
        return True

    await wait_for_async(is_moved, 10, "offsets that can be moved after the abort")
    assert await brokers.committed_offsets(connection, group) == {at: 0}


class Unreachable(NamedTuple):
    address: str
    says: str


@pytest.fixture(params=["refused", "silent"])
def unreachable(request: pytest.FixtureRequest) -> Generator[Unreachable]:
    """Addresses on this machine: one that nobody listens on, and one that accepts and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if request.param == "refused":
            server.close()
            yield Unreachable(address, "Connection refused")
        else:
            yield Unreachable(address, "")


Question = Callable[[KafkaBrokers, Connection, float], Awaitable[object]]
AT = TopicPartition("t", 0)
QUESTIONS: dict[str, Question] = {
    "describe_cluster": lambda b, c, s: b.describe_cluster(c, timeout_s=s),
    "facts": lambda b, c, s: b.facts(c, topics=["t"], groups=["g"], timeout_s=s),
    "topics": lambda b, c, s: b.topics(c, timeout_s=s),
    "describe_group": lambda b, c, s: b.describe_group(c, "g", timeout_s=s),
    "committed_offsets": lambda b, c, s: b.committed_offsets(c, "g", timeout_s=s),
    "offsets": lambda b, c, s: b.offsets(c, [AT], timeout_s=s),
    "offsets_at": lambda b, c, s: b.offsets_at(c, [AT], timestamp_ms=0, timeout_s=s),
    "alter_offsets": lambda b, c, s: b.alter_offsets(c, "g", {AT: 0}, timeout_s=s),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_unreachable_cluster_fails_within_the_bound_and_says_why(
    brokers: KafkaBrokers, unreachable: Unreachable, question: str, capfd: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as raised:
        await QUESTIONS[question](brokers, {"bootstrap.servers": unreachable.address}, 0.5)
    took_s = time.monotonic() - started
    assert raised.value.address == unreachable.address
    assert unreachable.says in raised.value.error
    assert 0 < raised.value.tried_s <= took_s < 1.5
    # librdkafka prints to stderr unless it is told not to.
    assert capfd.readouterr().err == ""


async def test_closing_ends_the_clients_and_their_threads(kafka: KafkaCluster) -> None:
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    connection = {"bootstrap.servers": kafka.bootstrap_servers}

    def threads() -> int:
        return psutil.Process().num_threads()

    before = threads()
    pool_before = threading.active_count()
    await brokers.facts(connection, topics=(), groups=["g"])
    assert threads() > before + (threading.active_count() - pool_before)
    await brokers.close()
    # Threads of asyncio's pool stay; librdkafka's are unknown to Python.
    grown = threading.active_count() - pool_before
    wait_for(lambda: threads() <= before + grown, 10, lambda: f"{before} + {grown} threads; there are {threads()}")
    assert not [thread.name for thread in threading.enumerate() if "kafka" in thread.name.lower()]


async def test_failed_question_about_a_group_leaves_no_thread_behind(kafka: KafkaCluster) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        before = threading.active_count()
        with pytest.raises(BrokerUnreachableError, match=address):
            group_client.ask(
                {"bootstrap.servers": address}, Attempt(address, 0.3), "describe g", lambda client: client.describe("g")
            )
    assert threading.active_count() == before


async def test_next_question_opens_no_new_client(brokers: KafkaBrokers, connection: Connection) -> None:
    await brokers.describe_cluster(connection)
    threads = psutil.Process().num_threads()
    for _ in range(20):
        await brokers.describe_cluster(connection)
    # Each client has threads of its own; the pool of asyncio may grow by a few.
    assert psutil.Process().num_threads() < threads + 20


async def test_missing_secret_is_named_and_nothing_is_asked(connection: Connection, tmp_path: Path) -> None:
    secured = {**connection, "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    brokers = KafkaBrokers(environment={}, secrets_dir=tmp_path)
    with pytest.raises(InvalidError, match="FENCELINE_SECRET_X"):
        await brokers.describe_cluster({**secured, "sasl.password": "env:FENCELINE_SECRET_X"})
    with pytest.raises(InvalidError, match="file:kafka"):
        await brokers.describe_cluster({**secured, "sasl.password": "file:kafka"})


async def test_settings_that_the_client_refuses_are_the_settings_fault(
    brokers: KafkaBrokers, connection: Connection, tmp_path: Path
) -> None:
    settings = {**connection, "security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "absent.pem")}
    with pytest.raises(InvalidError, match=r"ssl\.ca\.location") as raised:
        await brokers.describe_cluster(settings)
    assert raised.value.field == "client_config"


@pytest.mark.slow
async def test_group_questions_survive_a_coordinator_that_is_not_ready_and_a_broker_that_comes_back(
    brokers: KafkaBrokers,
) -> None:
    """A group's first question makes __consumer_offsets: there librdkafka's admin client crashes the process."""
    with KafkaCluster.start(overrides={"offsets.topic.num.partitions": "10"}) as cluster:
        connection = {"bootstrap.servers": cluster.bootstrap_servers}
        assert await brokers.committed_offsets(connection, "g", timeout_s=20) == {}
        cluster.broker(1).stop()
        with pytest.raises(BrokerUnreachableError):
            await brokers.describe_group(connection, "g", timeout_s=1)
        cluster.broker(1).start()
        assert (await brokers.describe_group(connection, "g", timeout_s=20)).state == "Dead"
        assert (await brokers.describe_cluster(connection, timeout_s=20)).cluster_id == cluster.cluster_id
