"""An instance of kind dataframe on a broker with TLS and logins: it reads and writes, and names a wrong password."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, SparkSettings, Stream
from app.core.runs.task import OutcomeKind
from tests.support.quiet import QUIET
from tests.support.secured import WAYS, SecuredKafka, User, Way, secured_kafka
from tests.support.spark_instances import SparkInstances, StartedInstance
from tests.support.topics import create_topic, unique_name
from tests.support.verifier import read_all
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

START_DEADLINE_S = 240
VALUES = [f'{{"n":{number}}}'.encode() for number in range(50)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("certificates")) as made:
        yield made


@pytest.fixture
def instances(secured: SecuredKafka, tmp_path: Path, worker_cache: Path) -> Generator[SparkInstances]:
    made = SparkInstances(
        state_dir=tmp_path / "state",
        cache_dir=worker_cache,
        master="local[2]",
        bootstrap_servers=secured.kafka.bootstrap_servers,
    )
    yield made
    made.kill_all()


def submit(
    instances: SparkInstances,
    secured: SecuredKafka,
    way: Way,
    user: User,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> StartedInstance:
    """A query that copies `n`, with the cluster's entry as the server sends it and the secrets in its environment."""
    source, sink = unique_name("secured-in"), unique_name("secured-out")
    for topic in (source, sink):
        create_topic(secured.kafka.bootstrap_servers, topic, partitions=1)
    producer = Producer({"bootstrap.servers": secured.kafka.bootstrap_servers, **QUIET})
    for value in VALUES:
        producer.produce(source, value=value)
    assert producer.flush(30) == 0
    for name, secret in secured.secrets_of(user).items():
        monkeypatch.setenv(name, secret)
    query = DataframeQuery(
        streams=(Stream(name="numbers", topic=source, schema="n INT"),),
        checkpoint=str(folder / "checkpoint"),
        sql="SELECT n FROM numbers",
        trigger_ms=500,
    )
    definition = PipelineDefinition(
        cluster="secured",
        source_topics=(source,),
        sink_topic=sink,
        group_id=unique_name("group"),
        transform=query,
        spark=SparkSettings(master="local[2]"),
    )
    connection = secured.connection(way, user)
    if way.mechanism is None:
        connection["ssl.key.location"] = str(decrypted(secured, folder))
    return instances.submit(replace(instances.specification(definition), client_config=connection))


def decrypted(secured: SecuredKafka, folder: Path) -> Path:
    """The client's key without encryption: Java 17 cannot decrypt it (PBES2)."""
    made = secured.certificates
    key = serialization.load_pem_private_key(made.client_key.read_bytes(), made.key_password.encode())
    path = folder / "client.key"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def files_with(folder: Path, secret: str) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and secret.encode() in path.read_bytes():
            yield path


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("way", [WAYS[0], WAYS[-1]], ids=str)
def test_a_query_reads_and_writes_through_tls_and_leaves_no_secret(
    way: Way, instances: SparkInstances, secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = submit(instances, secured, way, secured.trusted, tmp_path, monkeypatch)
    sink = instance.specification.definition.sink_topic

    def found() -> Counter[bytes | None]:
        return Counter(each.value for each in read_all(secured.kafka.bootstrap_servers, sink))

    wait_for(
        lambda: sum(found().values()) >= len(VALUES) or instance.files.outcome.exists(),
        START_DEADLINE_S,
        lambda: f"{len(VALUES)} records of {sink}\n{instance.log()[-3000:]}",
    )
    instance.sigterm()
    ended = instance.wait_until_gone().outcome
    assert ended is not None, instance.log()[-3000:]
    assert ended.kind == OutcomeKind.DRAINED, ended.message
    assert found() == Counter(VALUES)
    for secret in secured.secrets_of(secured.trusted).values():
        assert list(files_with(tmp_path, secret)) == []


def test_a_wrong_password_ends_the_run_with_the_brokers_sentence(
    instances: SparkInstances, secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(secured.trusted.name, "wrong-" + "secret")
    instance = submit(instances, secured, WAYS[0], user, tmp_path, monkeypatch)
    ended = instance.wait_until_gone(START_DEADLINE_S).outcome
    assert ended is not None, instance.log()[-3000:]
    assert ended.kind == OutcomeKind.HOPELESS, ended.message
    servers = secured.kafka.bootstrap_servers_of(WAYS[0].listener)
    assert ended.message.startswith(f"kafka.bootstrap.servers={servers} refused this client: ")
    assert "SCRAM-SHA-512" in ended.message
    assert ended.message.endswith("Check its credentials.")
    assert list(files_with(tmp_path, user.password)) == []
