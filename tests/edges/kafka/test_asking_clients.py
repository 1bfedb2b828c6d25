"""Questions to brokers do not load librdkafka, and a failed one leaves no thread behind."""

import socket
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from app.edges.kafka import cluster_client
from app.edges.kafka.attempt import ConnectionAttempt
from app.kit.errors import BrokerUnreachableError
from tests.support.waiting import wait_for


def test_server_asks_brokers_without_librdkafka() -> None:
    """An answer that it does not expect ends the process: what asks brokers for the server does not even load it."""
    rooms = [
        "app.edges.kafka.admin",
        "app.edges.kafka.journal_tail",
        "app.products.files.reference_topics",
        "app.edges.kafka.transactions.searching",
    ]
    load = f"import sys, importlib; [importlib.import_module(room) for room in {rooms}]; "
    done = subprocess.run(
        [sys.executable, "-c", load + "sys.exit('confluent_kafka' in sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr or "confluent_kafka is loaded"


async def test_failed_question_about_a_group_leaves_no_thread_behind() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        before = threading.active_count()
        with pytest.raises(BrokerUnreachableError, match=address):
            cluster_client.ask(
                {"bootstrap.servers": address},
                ConnectionAttempt(address, 0.3),
                "describe g",
                lambda client: client.describe("g"),
            )
    # What explains the failure has a second left where nothing answers.
    wait_for(lambda: threading.active_count() <= before, 10, lambda: f"threads: {threading.enumerate()}")
