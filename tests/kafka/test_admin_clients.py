"""Clients are kept for the next question, and leave no thread behind."""

import socket
import threading
from contextlib import closing

import psutil
import pytest

from app.domain.errors import BrokerUnreachableError
from app.embedded.kafka import KafkaCluster
from app.kafka import group_client
from app.kafka.admin import KafkaBrokers
from app.kafka.attempt import Attempt
from app.ports.brokers import Connection
from tests.support.waiting import wait_for


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
