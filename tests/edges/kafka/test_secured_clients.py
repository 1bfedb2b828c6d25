"""Every client through TLS and SASL, and its errors, which never have the secret."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.core.clusters.brokers import Connection
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.observing.fold_files import FoldFiles
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.snapshot import ReadingPhase
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.journal_tail import KafkaJournals
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.kit.errors import BrokerUnreachableError
from tests.support.pipelines import TestPipeline
from tests.support.secured import EXPIRED_BROKER, OTHER_HOST, WAYS, SecuredKafka, User, Way, executor, secured_kafka
from tests.support.serving import FENCELINE
from tests.support.tasks import TaskProcess
from tests.support.topics import unique_name
from tests.support.transactions import producer, send
from tests.support.watched import Watched

pytestmark = pytest.mark.slow

_TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("certificates")) as made:
        yield made


@pytest.fixture(scope="module")
def pipeline(secured: SecuredKafka) -> TestPipeline:
    return TestPipeline.create(secured.kafka.bootstrap_servers, partitions=1)


@dataclass(frozen=True)
class Door:
    """How a client is to come in, and what it needs for it."""

    connection: Connection
    secrets: Mapping[str, str]
    folder: Path
    pipeline: TestPipeline
    timeout_s: float = _TIMEOUT_S


async def through_the_brokers_port(door: Door) -> None:
    """Questions about the cluster, its groups and its logs."""
    brokers = KafkaBrokers(environment=door.secrets, secrets_dir=None)
    group, at = door.pipeline.definition.group_id, Partition(door.pipeline.source, 0)
    try:
        found = await brokers.facts(door.connection, topics=[at.topic], groups=[group], timeout_s=door.timeout_s)
        assert found.topics[at.topic].min_insync_replicas == 1
        assert found.transaction_max_timeout_ms is not None
        await brokers.committed_offsets(door.connection, group, timeout_s=door.timeout_s)
        assert at in await brokers.offsets(door.connection, [at], timeout_s=door.timeout_s)
        await brokers.read_partition_log(door.connection, at, start=0, limit=1, timeout_s=door.timeout_s)
        await brokers.read_transactional_ids(door.connection, [0], timeout_s=door.timeout_s)
    finally:
        await brokers.close()


async def through_the_transactions_port(door: Door) -> None:
    transactions = KafkaTransactions(environment=door.secrets, secrets_dir=None)
    at = Partition(door.pipeline.sink, 0)
    (facts,) = await transactions.look_at_partitions(door.connection, [at], timeout_s=door.timeout_s)
    assert facts.coordinators.unanswered == ()
    fenced = await transactions.fence(door.connection, unique_name("fenced"), timeout_s=door.timeout_s)
    assert fenced.producer_id >= 0


async def through_the_observer(door: Door) -> None:
    journals = KafkaJournals(environment=door.secrets, secrets_dir=None, topics=JOURNALS)

    def opened() -> str:
        with journals.open(door.connection, timeout_s=door.timeout_s) as tail:
            return tail.kafka_cluster_id

    kafka_cluster_id = await asyncio.to_thread(opened)
    client_config = {name: value for name, value in door.connection.items() if name != "bootstrap.servers"}
    cluster = Cluster(
        name="c",
        kafka_cluster_id=kafka_cluster_id,
        bootstrap_servers=door.connection["bootstrap.servers"],
        client_config=client_config,
        created_at=datetime.now(UTC),
        created_by="somebody",
    )
    watched = Watched(cluster, journals=journals, store=FoldFiles(door.folder, groups=()))
    watched.observer.start()
    try:
        await asyncio.to_thread(watched.until_live)
    finally:
        assert await asyncio.to_thread(watched.observer.stop)


def worker_of(door: Door) -> TaskProcess:
    return executor(door.pipeline, door.connection, door.secrets, door.folder)


async def through_a_worker(door: Door) -> None:
    worker = worker_of(door)
    try:
        await asyncio.to_thread(worker.wait_for_records, len(door.pipeline.feed(5)))
        assert not set(door.secrets.values()) & set(_arguments(worker.pid)), "a secret among a process's arguments"
        await asyncio.to_thread(worker.drain)
        door.pipeline.assert_whole()
    finally:
        worker.close()
    _assert_hidden(door, worker.said())


async def through_the_command_line(door: Door) -> None:
    for command in (["log", door.pipeline.source, "0"], ["groups"]):
        ended = await asyncio.to_thread(_command, door, *command)
        assert ended.returncode == 0, ended.stderr
        _assert_hidden(door, ended.stdout + ended.stderr)


def _command(door: Door, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = [f"--config={name}={value}" for name, value in door.connection.items() if name != "bootstrap.servers"]
    return subprocess.run(
        [*FENCELINE, *arguments, "--bootstrap-server", door.connection["bootstrap.servers"], *settings],
        cwd=door.folder,
        env={**os.environ, "XDG_STATE_HOME": str(door.folder), **door.secrets},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def _assert_hidden(door: Door, said: str) -> None:
    for secret in door.secrets.values():
        assert secret not in said


@pytest.fixture
def door_of(
    secured: SecuredKafka, pipeline: TestPipeline, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Generator[Callable[..., Door]]:
    """Everything that is logged while the test runs, at any level, must be without the secrets."""
    caplog.set_level(logging.DEBUG)
    made: list[Door] = []

    def make(way: Way, *, user: User = secured.trusted, authority: Path | None = None, timeout_s: float = 20.0) -> Door:
        connection = secured.connection(way, user, authority=authority)
        made.append(Door(connection, secured.secrets_of(user), tmp_path, pipeline, timeout_s))
        return made[-1]

    yield make
    for door in made:
        _assert_hidden(door, caplog.text)


by_every_way = pytest.mark.parametrize("way", WAYS, ids=str)


@pytest.mark.faults(keep=2)
@by_every_way
async def test_questions_about_clusters_come_by_every_way(way: Way, door_of: Callable[..., Door]) -> None:
    await through_the_brokers_port(door_of(way))


@pytest.mark.faults(keep=2)
@by_every_way
async def test_questions_about_transactions_come_by_every_way(way: Way, door_of: Callable[..., Door]) -> None:
    await through_the_transactions_port(door_of(way))


@pytest.mark.faults(keep=2)
@by_every_way
async def test_observer_comes_by_every_way(way: Way, door_of: Callable[..., Door]) -> None:
    door = door_of(way)
    # The journal of groups is created by the first lookup of a coordinator.
    await through_a_worker(door)
    await through_the_observer(door)


@pytest.mark.faults(keep=2)
@by_every_way
async def test_loop_comes_by_every_way(way: Way, door_of: Callable[..., Door]) -> None:
    await through_a_worker(door_of(way))


@pytest.mark.faults(keep=1)
@by_every_way
async def test_command_line_comes_by_every_way(way: Way, door_of: Callable[..., Door]) -> None:
    await through_the_command_line(door_of(way))


MISTAKES = ("password", "authority", "host")
# The common error of both libraries.
_SAID = {
    # The broker's words, or that it hung up: whether they are read with the end of the connection is a matter of luck.
    "password": ("Authentication failed", "closed the connection during the login"),
    "authority": ("the broker's certificate is not accepted: unable to get local issuer",),
    "host": ("certificate is not accepted: IP address mismatch, certificate is not valid for '127.0.0.1'",),
}


def mistaken(mistake: str, secured: SecuredKafka, door_of: Callable[..., Door]) -> Door:
    if mistake == "password":
        # Brokers are slow to refuse a password on purpose: a question that ends before has only its time to name.
        return door_of(WAYS[0], user=User(secured.trusted.name, "wrong-" + "secret"), timeout_s=6)
    if mistake == "authority":
        return door_of(WAYS[0], authority=secured.certificates.other_authority, timeout_s=1.5)
    return door_of(OTHER_HOST, timeout_s=1.5)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(
    "client", [through_the_brokers_port, through_the_transactions_port, through_the_observer], ids=lambda f: f.__name__
)
async def test_server_says_what_is_wrong(
    client: Callable[[Door], Awaitable[None]],
    mistake: str,
    secured: SecuredKafka,
    door_of: Callable[..., Door],
    capfd: pytest.CaptureFixture[str],
) -> None:
    door = mistaken(mistake, secured, door_of)
    with pytest.raises(BrokerUnreachableError) as raised:
        await client(door)
    assert raised.value.address == door.connection["bootstrap.servers"]
    assert any(part in raised.value.error for part in _SAID[mistake]), raised.value.error
    _assert_hidden(door, raised.value.message + "".join(capfd.readouterr()))


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_command_line_says_what_is_wrong(
    mistake: str, secured: SecuredKafka, door_of: Callable[..., Door]
) -> None:
    door = mistaken(mistake, secured, door_of)
    ended = await asyncio.to_thread(_command, door, "transactions", "--timeout", "6")
    assert ended.returncode == 3
    said = " ".join(ended.stderr.split())
    assert any(part in said for part in _SAID[mistake]), ended.stderr
    _assert_hidden(door, ended.stdout + ended.stderr)


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_worker_says_what_is_wrong(mistake: str, secured: SecuredKafka, door_of: Callable[..., Door]) -> None:
    door = mistaken(mistake, secured, door_of)
    worker = worker_of(door)
    words = {"password": "SASL authentication error", "authority": "certificate verify failed"}
    try:
        await asyncio.to_thread(
            worker.wait_until, lambda: words.get(mistake, words["authority"]) in worker.said(), "the reason"
        )
    finally:
        worker.close()
    _assert_hidden(door, worker.said())


@pytest.mark.parametrize("whose", ["broker", "client"])
async def test_expired_certificate_is_named_by_every_client(
    whose: str, secured: SecuredKafka, door_of: Callable[..., Door]
) -> None:
    """All of them at once: each waits for a broker that it will not reach."""
    door = door_of(EXPIRED_BROKER if whose == "broker" else WAYS[-1], timeout_s=3)
    said, of_librdkafka = (
        "the broker's certificate is not accepted: certificate has expired",
        "certificate verify failed",
    )
    if whose == "client":
        file = str(secured.certificates.expired_client)
        own = {"ssl.certificate.location": file, "ssl.key.location": file}
        kept = {name: value for name, value in door.connection.items() if name != "ssl.key.password"}
        door = replace(door, connection={**kept, **own})
        said, of_librdkafka = f"the client certificate, {file}: certificate has expired", "alert certificate unknown"
    worker = worker_of(door)
    try:
        *refused, ended, _ = await asyncio.gather(
            through_the_brokers_port(door),
            through_the_transactions_port(door),
            through_the_observer(door),
            asyncio.to_thread(_command, door, "transactions", "--timeout", "3"),
            asyncio.to_thread(worker.wait_until, lambda: of_librdkafka in worker.said(), "the reason"),
            return_exceptions=True,
        )
        assert of_librdkafka in worker.said()
    finally:
        worker.close()
    for error in refused:
        assert isinstance(error, BrokerUnreachableError), error
        assert said in error.error
    assert isinstance(ended, subprocess.CompletedProcess)
    assert ended.returncode == 3
    assert said in " ".join(ended.stderr.split())


async def test_observer_names_a_password_that_has_changed_and_goes_on_with_the_new_one(
    secured: SecuredKafka, pipeline: TestPipeline, tmp_path: Path
) -> None:
    user = User(secured.trusted.name, "no-longer-" + "right")
    environment = secured.secrets_of(user)
    connection = secured.connection(WAYS[0], user)
    journals = KafkaJournals(environment=environment, secrets_dir=None, topics=JOURNALS)
    opened = producer({"bootstrap.servers": secured.kafka.bootstrap_servers}, unique_name("x"))
    opened.begin_transaction()
    send(opened, pipeline.sink, "x")
    opened.abort_transaction(_TIMEOUT_S)
    cluster = Cluster(
        name="c",
        kafka_cluster_id=secured.kafka.cluster_id,
        bootstrap_servers=connection["bootstrap.servers"],
        client_config={name: value for name, value in connection.items() if name != "bootstrap.servers"},
        created_at=datetime.now(UTC),
        created_by="somebody",
    )
    watched = Watched(cluster, journals=journals, store=FoldFiles(tmp_path, groups=()))
    watched.observer.start()
    try:
        lost = watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LOST, "the refusal")
        assert any(part in lost.transaction_journal.problem for part in _SAID["password"])
        environment.update(secured.secrets_of(secured.trusted))
        watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE, "the new password")
    finally:
        assert watched.observer.stop()
