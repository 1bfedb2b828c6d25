"""Clients are kept for the next question, and leave no thread behind."""

import gc
import signal
import socket
import subprocess
import sys
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

    # Clients of earlier tests that only the collector ends would end in between, and their threads with them.
    gc.collect()
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


_LATE_ANSWER = """
import asyncio, gc, sys
from confluent_kafka import TopicCollection
from app.kafka.admin_clients import AdminClients

gc.disable()

async def main():
    clients, cycle = AdminClients(), []
    async with clients.borrow({"bootstrap.servers": "127.0.0.1:1"}) as admin:
        asked = admin.client.describe_topics(TopicCollection(["t"]), request_timeout=0.5)["t"]
        # As tracebacks do: the client is no longer used, and is not freed before the collector runs.
        cycle.extend([cycle, admin])
    if sys.argv[1] == "closed":
        await clients.close()
    else:
        clients._kept.clear()
    return asked

answered = []
# librdkafka's thread runs this, and may start the collector in it.
asyncio.run(main()).add_done_callback(lambda asked: answered.append(gc.collect()))
while sys.argv[1] == "dropped" and not answered:
    pass
"""


@pytest.mark.parametrize(("how", "ends_with"), [("closed", 0), ("dropped", -signal.SIGABRT)])
def test_answer_that_comes_late_does_not_end_the_process(how: str, ends_with: int) -> None:
    """A client that the collector destroys on its own thread does: that is the control."""
    done = subprocess.run(
        [sys.executable, "-c", _LATE_ANSWER, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == ends_with, done.stderr
