"""The partition log on real brokers, against Kafka's own tool: two examples, and errors."""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from app.core.clusters.brokers import Connection
from app.core.fencing.evidence import CoordinatorRecord
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.journals import transaction_state
from app.core.journals.log_entries import EntryState, LogEntry
from app.core.journals.log_look import Landmark
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import OLD_KAFKA_JARS
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import InvalidError, NotFoundError, UnavailableError
from app.products.partition_log.service import PartitionLog, look_into_log
from tests.conftest import MakeTopic
from tests.core.journals.dumps import assert_as_dumped
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.journal_events import events_of, ids_of
from tests.support.journal_recording import DUMP_LOG, VERSIONS, Version
from tests.support.kafka_tools import run_program, run_tool
from tests.support.permissions import GUARDED_BROKER_SETTINGS, deny
from tests.support.recordings import DumpedBatch, parse_dump
from tests.support.topics import create_topic, unique_name
from tests.support.transactions import producer, send

_TIMEOUT_S = 30.0


async def look(
    brokers: KafkaBrokers,
    connection: Connection,
    topic: str,
    *,
    start: int | Landmark = 0,
    limit: int = 100,
    partition: int = 0,
    values: bool = False,
) -> PartitionLog:
    return await look_into_log(
        brokers,
        connection,
        ask_ids=lambda wanted: brokers.read_transactional_ids(connection, wanted, timeout_s=_TIMEOUT_S),
        topic=topic,
        partition=partition,
        start=start,
        limit=limit,
        keys=values,
        values=values,
        timeout_s=_TIMEOUT_S,
    )


@dataclass(frozen=True)
class Place:
    """A broker of one version, and how two clients of one language write to it."""

    cluster: KafkaCluster
    version: Version

    @property
    def connection(self) -> dict[str, str]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    @contextmanager
    def two_clients(self, language: str, topic: str, first_id: str, second_id: str) -> Generator[None]:
        """The first one's transaction stays open, the second one's is committed."""
        create_topic(self.cluster.bootstrap_servers, topic)
        if language == "Java":
            servers = self.cluster.bootstrap_servers
            run_program("TwoProducers", servers, topic, first_id, second_id, jars=self.version.jars)
            yield
            return
        first = producer(self.connection, first_id)
        first.begin_transaction()
        send(first, topic, "first")
        second = producer(self.connection, second_id)
        second.begin_transaction()
        send(second, topic, "second")
        second.commit_transaction(_TIMEOUT_S)
        yield
        del first

    def dump(self, topic: str) -> list[DumpedBatch]:
        (segment,) = (self.cluster.broker(1).data_dir / "data" / f"{topic}-0").glob("*.log")
        return parse_dump(run_tool(DUMP_LOG, "--deep-iteration", "--print-data-log", "--files", str(segment)))


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: version.name)
def place(request: pytest.FixtureRequest) -> Generator[Place]:
    version: Version = request.param
    with KafkaCluster.start(jars=version.jars, overrides={**TEST_BROKER_SETTINGS, **version.settings}) as cluster:
        yield Place(cluster, version)


def told(entries: tuple[LogEntry, ...]) -> list[tuple[str, int | None]]:
    """State or marker, and epoch."""
    return [(entry.marker or entry.state.value, entry.producer_epoch) for entry in entries]


@pytest.mark.core
@pytest.mark.slow
@pytest.mark.parametrize("language", ["C", "Java"])
async def test_second_client_with_the_same_id_ends_the_first_ones_transaction(
    brokers: KafkaBrokers, place: Place, language: str
) -> None:
    topic, shared = unique_name("same"), unique_name("id")
    with place.two_clients(language, topic, shared, shared):
        found = await look(brokers, place.connection, topic, values=True)
        first, abort, _, commit = found.entries
        # A client of KIP-890 commits at the next epoch; every other one at that of its data.
        is_kip_890 = language == "Java" and place.version.jars != OLD_KAFKA_JARS
        assert told(found.entries) == [
            ("aborted", 0),
            ("ABORT", 1),
            ("committed", 2),
            ("COMMIT", 3 if is_kip_890 else 2),
        ]
        assert len({entry.producer_id for entry in found.entries}) == 1
        assert {entry.transactional_id for entry in found.entries} == {shared}
        assert first.decided_at == abort.base_offset
        assert ("no producer was fenced" in (commit.note or "")) == is_kip_890
        assert "initialised again" in (abort.note or "")
        assert_as_dumped(found.entries, place.dump(topic))
        (event,) = events_of(ids_of(place.cluster.bootstrap_servers)[shared])
        assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.TAKEOVER, Confidence.LIKELY)
        # That the first one aborted by itself and the second one came at once, or that the first one asked for its own
        # next epoch, would leave the same records.
        assert event.verdict.alternatives == ((FencingCause.OWN_ABORT if is_kip_890 else FencingCause.OWN_EPOCH),)
        epochs = [one.record.producer_epoch for one in event.evidence if isinstance(one, CoordinatorRecord)]
        assert epochs == [0, 1, 1, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["C", "Java"])
async def test_second_client_with_another_id_fences_no_producer(
    brokers: KafkaBrokers, place: Place, language: str
) -> None:
    topic, ids = unique_name("different"), (unique_name("id"), unique_name("id"))
    with place.two_clients(language, topic, *ids):
        found = await look(brokers, place.connection, topic, values=True)
        is_kip_890 = language == "Java" and place.version.jars != OLD_KAFKA_JARS
        assert told(found.entries) == [("open", 0), ("committed", 0), ("COMMIT", 1 if is_kip_890 else 0)]
        assert [entry.transactional_id for entry in found.entries] == [ids[0], ids[1], ids[1]]
        assert (found.bounds.last_stable_offset, found.bounds.high_watermark) == (0, 3)
        assert_as_dumped(found.entries, place.dump(topic))
        journal = ids_of(place.cluster.bootstrap_servers)
        assert [events_of(journal[name]) for name in ids] == [[], []]


@pytest.mark.core
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches_are_read_as_kafkas_tool_reads_them(
    brokers: KafkaBrokers, kafka: KafkaCluster, connection: Connection, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    writer = producer(connection, **{"compression.type": codec, "linger.ms": "50"})
    for number in range(200):
        writer.produce(topic, f"value {number % 3}", key="key", partition=0)
    assert writer.flush(_TIMEOUT_S) == 0
    found = await look(brokers, connection, topic, values=True)
    assert {entry.compression for entry in found.entries} == {codec}
    assert sum(len(entry.records) for entry in found.entries) == 200
    assert_as_dumped(found.entries, Place(kafka, VERSIONS[0]).dump(topic))


async def test_look_that_begins_or_ends_in_the_middle_says_what_the_whole_one_says(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    one, two, filler = producer(connection, unique_name()), producer(connection, unique_name()), producer(connection)
    for end in (Producer.commit_transaction, Producer.abort_transaction):
        for client in (one, two):
            client.begin_transaction()
        send(one, topic, "a")
        send(two, topic, "b")
        send(one, topic, "c")
        # An answer has a megabyte: the markers are out of sight of what is before.
        send(filler, topic, "x" * 900_000, "x" * 900_000)
        end(one, _TIMEOUT_S)
        two.abort_transaction(_TIMEOUT_S)
    whole = (await look(brokers, connection, topic)).entries
    states = [EntryState.COMMITTED, EntryState.ABORTED, EntryState.COMMITTED, EntryState.PLAIN, EntryState.PLAIN]
    assert [entry.state for entry in whole[:5]] == states
    out_of_sight = 0
    for start in range(len(whole)):
        for limit in (1, 2, len(whole) - start):
            part = (await look(brokers, connection, topic, start=start, limit=limit)).entries
            assert told(part) == told(whole[start : start + limit])
            out_of_sight += part[0].is_transactional and not part[0].is_control and part[0].decided_at is None
    assert out_of_sight >= 6


async def test_open_transaction_is_found_at_the_last_stable_offset(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic, name = make_topic(), unique_name()
    send(producer(connection), topic, "plain", "plain")
    holder = producer(connection, name)
    holder.begin_transaction()
    send(holder, topic, "pending", "pending")
    found = await look(brokers, connection, topic, start=Landmark.LSO, limit=1)
    (entry,) = found.entries
    assert (entry.base_offset, entry.state, entry.transactional_id) == (2, EntryState.OPEN, name)
    assert (found.next_offset, found.is_at_end) == (3, False)
    holder.commit_transaction(_TIMEOUT_S)
    decided = await look(brokers, connection, topic, start=2)
    assert told(decided.entries) == [("committed", 0), ("committed", 0), ("COMMIT", 0)]
    assert (await look(brokers, connection, topic, start=Landmark.LSO)).entries == ()


async def test_missing_topics_and_offsets_are_named(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    with pytest.raises(NotFoundError, match="no topic no-such-topic"):
        await look(brokers, connection, "no-such-topic")
    with pytest.raises(NotFoundError, match=f"{topic} has partitions 0 to 1, no partition 7"):
        await look(brokers, connection, topic, partition=7)
    with pytest.raises(InvalidError, match=r"out of range: .* is empty; its next record gets offset 0"):
        await look(brokers, connection, topic, start=1)
    assert (await look(brokers, connection, topic)).entries == ()


@pytest.mark.slow
async def test_missing_permissions_are_named(brokers: KafkaBrokers) -> None:
    with KafkaCluster.start(overrides=GUARDED_BROKER_SETTINGS) as cluster:
        connection = {"bootstrap.servers": cluster.bootstrap_servers}
        for topic in ("seen", "unread", "hidden"):
            create_topic(cluster.bootstrap_servers, topic)
        name = unique_name()
        writer = producer(connection, name)
        writer.begin_transaction()
        send(writer, "seen", "pending")
        deny(cluster.bootstrap_servers, transaction_state.TOPIC, AclOperation.READ)
        deny(cluster.bootstrap_servers, "unread", AclOperation.READ)
        deny(cluster.bootstrap_servers, "hidden", AclOperation.DESCRIBE)
        found = await look(brokers, connection, "seen")
        (entry,) = found.entries
        # The coordinators tell what their journal may not.
        assert (entry.state, entry.transactional_id) == (EntryState.OPEN, name)
        assert "of ListTransactions, since __transaction_state could not be read" in (found.ids_note or "")
        assert "TopicAuthorizationFailed" in (found.ids_note or "")
        deny(cluster.bootstrap_servers, name, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
        (entry,) = (await look(brokers, connection, "seen")).entries
        assert (entry.state, entry.transactional_id) == (EntryState.OPEN, None)
        for topic in ("unread", "hidden"):
            with pytest.raises(UnavailableError, match=f"read {topic}: grant Describe and Read"):
                await look(brokers, connection, topic)
