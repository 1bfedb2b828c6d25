"""A client that has answered serves the next question with the same settings, unless anything may be wrong."""

import asyncio
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import cast

import pytest

from app.core.clusters.brokers import Connection
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.cluster_client import ClusterClient
from app.edges.kafka.kept_clients import KeptClients
from app.kit.errors import BrokerUnreachableError
from tests.support.waiting import wait_for

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": "first"}


class _Client:
    """Stands for a ClusterClient, whose connections need brokers."""

    def __init__(self, resolved: Mapping[str, str]) -> None:
        self.resolved = resolved
        self.resumed = 0
        self.answers = True
        self.is_at_rest = True
        self.is_closed = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def resume(self, attempt: ConnectionAttempt) -> bool:
        self.resumed += 1
        return self.answers

    def close(self) -> None:
        self.is_closed = True


class _Clients:
    """The clients that were made, and the object under test."""

    def __init__(self, kept_s: float = 60) -> None:
        self.made: list[_Client] = []
        self.kept = KeptClients(self._make, kept_s=kept_s)

    def _make(self, resolved: Mapping[str, str], attempt: ConnectionAttempt) -> ClusterClient:
        self.made.append(_Client(resolved))
        return cast(ClusterClient, self.made[-1])

    def ask(self, **settings: str) -> _Client:
        with self.kept.client(SETTINGS | settings, ConnectionAttempt("", 1)) as client:
            return cast(_Client, client)


def test_next_question_with_the_same_settings_resumes_the_client() -> None:
    clients = _Clients()
    assert [clients.ask(), clients.ask(), clients.ask()] == clients.made * 3
    assert clients.made[0].resumed == 2
    assert not clients.made[0].is_closed


def test_changed_password_gets_a_client_of_its_own() -> None:
    clients = _Clients()
    clients.ask()
    assert clients.ask(**{"sasl.password": "second"}).resolved["sasl.password"] == "second"
    assert clients.ask().resolved["sasl.password"] == "first"
    assert len(clients.made) == 2


def test_questions_at_the_same_moment_never_share_a_client() -> None:
    clients = _Clients()
    clients.ask()
    with ExitStack() as asking:
        attempt = ConnectionAttempt("", 1)
        given = [asking.enter_context(clients.kept.client(SETTINGS, attempt)) for _ in range(6)]
        assert len(set(map(id, given))) == 6
    assert sum(not one.is_closed for one in clients.made) == 4


def test_client_without_an_answer_is_closed_and_replaced() -> None:
    clients = _Clients()
    first = clients.ask()
    first.answers = False
    assert clients.ask() is not first
    assert first.is_closed


def test_client_with_a_broker_that_did_not_answer_is_not_kept() -> None:
    clients = _Clients()
    with clients.kept.client(SETTINGS, ConnectionAttempt("", 1)):
        clients.made[0].is_at_rest = False
    assert clients.made[0].is_closed
    assert clients.ask() is clients.made[1]


def test_client_of_a_failed_question_is_not_kept() -> None:
    clients = _Clients()
    with pytest.raises(ZeroDivisionError), clients.kept.client(SETTINGS, ConnectionAttempt("", 1)):
        raise ZeroDivisionError
    assert clients.made[0].is_closed
    assert clients.ask() is clients.made[1]


def test_client_is_closed_when_no_question_comes() -> None:
    clients = _Clients(kept_s=0.05)
    first = clients.ask()
    wait_for(lambda: first.is_closed, 10, lambda: "the client is open")
    assert clients.ask() is not first


def test_closing_closes_every_client_and_one_that_answers_after_its_question() -> None:
    clients = _Clients()
    first = clients.ask()
    with clients.kept.client(SETTINGS, ConnectionAttempt("", 1)):
        clients.kept.close()
        assert not first.is_closed
    assert first.is_closed
    assert clients.ask().is_closed


class _Threads:
    """The threads of clients that were made since; other tests may have left theirs."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def __len__(self) -> int:
        new = set(threading.enumerate()) - self._before
        return sum(thread.name.startswith("kafka-io") for thread in new)


@pytest.mark.slow
async def test_questions_in_turn_share_a_client_that_closing_ends(
    brokers: KafkaBrokers, connection: Connection
) -> None:
    threads = _Threads()
    for _ in range(3):
        await brokers.facts(connection, topics=(), groups=["g"])
        await brokers.list_topics(connection)
    assert len(threads) == 1
    await brokers.close()
    assert len(threads) == 0


@pytest.mark.slow
async def test_kept_client_asks_again_after_its_broker_was_restarted_or_frozen(brokers: KafkaBrokers) -> None:
    threads = _Threads()
    with KafkaCluster.start(overrides={"offsets.topic.num.partitions": "10"}) as cluster:
        connection = {"bootstrap.servers": cluster.bootstrap_servers}
        await brokers.describe_group(connection, "g", timeout_s=20)
        cluster.broker(1).stop()
        cluster.broker(1).start()
        assert (await brokers.describe_group(connection, "g", timeout_s=20)).state == "Dead"
        assert len(threads) == 1
        cluster.broker(1).pause()
        started = time.monotonic()
        with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1"):
            await brokers.describe_group(connection, "g", timeout_s=2)
        assert time.monotonic() - started < 2 + 2
        cluster.broker(1).resume()
        assert (await brokers.describe_group(connection, "g", timeout_s=20)).state == "Dead"
        answers = await asyncio.gather(*(brokers.list_topics(connection, timeout_s=20) for _ in range(12)))
        assert answers == [answers[0]] * 12
    await brokers.close()
    assert len(threads) == 0
