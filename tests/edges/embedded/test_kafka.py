"""The embedded broker is a real one: it keeps acknowledged records through the end of its process."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.kafka import Jvm, KafkaCluster, live_brokers
from app.edges.embedded.processes import has_ended
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for


def produce(bootstrap_servers: str, topic: str, values: list[str], *, timeout_s: float = 30) -> None:
    """Produce with acks=all; raises when one value is not acknowledged in time."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "message.timeout.ms": timeout_s * 1000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(timeout_s + 5) == 0
    if failures:
        raise KafkaException(failures[0])


def read_all(bootstrap_servers: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": unique_name("g"), "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []

    def enough() -> bool:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found.append((message.value() or b"").decode())
        return len(found) >= count

    try:
        wait_for(enough, 30, lambda: f"{count} records of {topic}, found {len(found)}")
    finally:
        consumer.close()
    return found


def test_cluster_reports_the_version_it_was_pinned_to(kafka: KafkaCluster) -> None:
    assert live_brokers(kafka.bootstrap_servers) == {1}
    assert "Kafka version: 4.3.1" in kafka.broker(1).log_path.read_text(encoding="utf-8")


def test_broker_listens_on_loopback_only(kafka: KafkaCluster) -> None:
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(kafka.broker(1).pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 2
    # Java listens on the IPv4 loopback through an IPv6 socket.
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


@pytest.mark.slow
def test_overrides_reach_the_broker() -> None:
    with KafkaCluster.start(overrides={"message.max.bytes": "12345"}) as cluster:
        resource = ConfigResource(ResourceType.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        # The result of its futures has no type.
        answers = cast(
            dict[ConfigResource, Future[dict[str, ConfigEntry]]],
            admin.describe_configs([resource]),  # pyright: ignore[reportUnknownMemberType]
        )
        settings = answers[resource].result(30)
    assert settings["message.max.bytes"].value == "12345"


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory):
    """A broker of this module's own, to be treated badly; its data outlives it."""
    with KafkaCluster.start(data_dir=tmp_path_factory.mktemp("lone")) as cluster:
        yield cluster


@pytest.mark.slow
def test_acknowledged_records_survive_kill_and_restart(lone: KafkaCluster) -> None:
    topic = unique_name()
    create_topic(lone.bootstrap_servers, topic)
    values = [str(n) for n in range(1000)]
    produce(lone.bootstrap_servers, topic, values)
    before = lone.broker(1).pid
    lone.broker(1).kill()
    assert has_ended(before)
    lone.broker(1).restart()
    assert read_all(lone.bootstrap_servers, topic, 1000) == values


@pytest.mark.slow
def test_paused_broker_does_not_answer_until_resumed(lone: KafkaCluster) -> None:
    lone.broker(1).pause()
    try:
        assert lone.broker(1).is_running
        assert live_brokers(lone.bootstrap_servers, timeout_s=1) == set()
    finally:
        lone.broker(1).resume()
    wait_for(lambda: live_brokers(lone.bootstrap_servers) == {1}, 30, "an answer after SIGCONT")


@pytest.mark.slow
def test_named_folder_brings_the_same_cluster_back(tmp_path: Path) -> None:
    topic = unique_name()
    with KafkaCluster.start(data_dir=tmp_path) as first:
        create_topic(first.bootstrap_servers, topic)
        produce(first.bootstrap_servers, topic, ["kept"])
        first_id = first.cluster_id
    first.stop()
    assert not first.broker(1).is_running
    with KafkaCluster.start(data_dir=tmp_path) as second:
        assert second.cluster_id == first_id
        assert read_all(second.bootstrap_servers, topic, 1) == ["kept"]


@pytest.mark.slow
def test_temporary_data_is_gone_after_stop() -> None:
    with KafkaCluster.start() as cluster:
        folder = cluster.data_dir
        assert folder.is_dir()
    assert not folder.exists()


@pytest.mark.slow
def test_broker_that_cannot_start_shows_the_end_of_its_log() -> None:
    with pytest.raises(EmbeddedError, match=r"(?s)Kafka broker 1 ended with exit code 1 .*no\.such\.Reporter"):
        KafkaCluster.start(overrides={"metric.reporters": "no.such.Reporter"})


@pytest.mark.slow
def test_setting_that_kafka_refuses_is_named() -> None:
    with pytest.raises(EmbeddedError, match=r"Invalid value not a number for configuration log\.segment\.bytes"):
        KafkaCluster.start(overrides={"log.segment.bytes": "not a number"})


@pytest.mark.slow
def test_process_of_a_stopped_broker_is_a_clear_error(tmp_path: Path) -> None:
    cluster = KafkaCluster.start(data_dir=tmp_path)
    cluster.stop()
    with pytest.raises(EmbeddedError, match="Kafka broker 1 is not running"):
        _ = cluster.broker(1).pid


@pytest.mark.slow
def test_heap_is_the_one_asked_for() -> None:
    with KafkaCluster.start(jvm=Jvm(heap_mb=200, quick_start=False)) as cluster:
        command_line = psutil.Process(cluster.broker(1).pid).cmdline()
    assert "-Xmx200m" in command_line
    assert "-XX:TieredStopAtLevel=1" not in command_line


def test_three_brokers_accept_acks_all_with_one_killed(kafka_cluster3: KafkaCluster) -> None:
    topic = unique_name()
    create_topic(kafka_cluster3.bootstrap_servers, topic)
    produce(kafka_cluster3.bootstrap_servers, topic, ["with three"])
    leader = AdminClient({"bootstrap.servers": kafka_cluster3.bootstrap_servers}).list_topics(topic, timeout=10)
    victim = kafka_cluster3.broker(leader.topics[topic].partitions[0].leader)
    victim.kill()
    try:
        produce(kafka_cluster3.bootstrap_servers, topic, ["with two"])
        assert read_all(kafka_cluster3.bootstrap_servers, topic, 2) == ["with three", "with two"]
    finally:
        victim.restart()
        kafka_cluster3.wait_until_complete()


def test_three_brokers_refuse_acks_all_with_two_paused(kafka_cluster3: KafkaCluster) -> None:
    """The negative control of the test above: below min.insync.replicas nothing may be acknowledged."""
    topic = unique_name()
    create_topic(kafka_cluster3.bootstrap_servers, topic)
    asleep = [kafka_cluster3.broker(2), kafka_cluster3.broker(3)]
    for broker in asleep:
        broker.pause()
    try:
        with pytest.raises(KafkaException):
            produce(kafka_cluster3.bootstrap_servers, topic, ["with one"], timeout_s=5)
    finally:
        for broker in asleep:
            broker.resume()
        kafka_cluster3.wait_until_complete()


def test_brokers_die_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from app.edges.embedded.kafka import KafkaCluster
        cluster = KafkaCluster.start(data_dir=Path(sys.argv[1]))
        print(cluster.broker(1).pid, flush=True)
        time.sleep(600)
    """)
    argv = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as parent:
        assert parent.stdout is not None
        broker_pid = int(parent.stdout.readline())
        assert not has_ended(broker_pid)
        parent.kill()
    wait_for(lambda: has_ended(broker_pid), 20, f"the end of the orphaned broker, pid {broker_pid}")


@pytest.mark.slow
def test_a_broker_runs_where_a_folder_has_a_space_and_an_umlaut_under_the_c_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LC_ALL": "C", "LANG": "C", "JAVA_TOOL_OPTIONS": "-Dx=y"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "Zustand ü"
    with KafkaCluster.start(data_dir=folder) as cluster:
        assert AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=10).brokers
        (home,) = (path for path in folder.iterdir() if path.is_dir())
        assert (home / "data" / "meta.properties").exists(), "not in a folder whose name was read as Latin-1"
        left = home / "tmp" / "liblz4-java-1.so"
        left.touch()
        cluster.brokers[0].kill()
        assert not left.exists(), "what a killed JVM leaves is removed"
    assert not (home / "tmp").exists()
