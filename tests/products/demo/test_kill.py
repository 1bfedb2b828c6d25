"""The demo kills a worker only inside an open transaction, and reads the outcome from the journal."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from app.core.ids.transaction_counts import count_transactions
from app.core.journals.transaction_state import JournalRecord
from app.core.runs.task import TaskReport, TaskState
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transaction_journal import read_transaction_journal
from app.products.demo.kill import IdTail, aftermath, kill_inside_a_transaction
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.waiting import wait_for

HOLDER = str(Path(__file__).with_name("transaction_holder.py"))


def transactional_producer(bootstrap_servers: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id})
    initialise(producer)
    return producer


class Workers:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = bootstrap_servers
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *, topic: str, transactional_id: str, is_open: bool) -> TaskReport:
        process = subprocess.Popen(
            [sys.executable, HOLDER, self._bootstrap, topic, transactional_id, "open" if is_open else "closed"],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the worker did not get to its transaction"
        return report(process.pid, transactional_id)


def report(pid: int, transactional_id: str) -> TaskReport:
    return TaskReport(
        run_id="r",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        sequence=1,
        sent_at_ms=0,
        host="here",
        pid=pid,
        state=TaskState.RUNNING,
        transactional_id=transactional_id,
    )


@pytest.fixture
def workers(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Generator[Workers]:
    # The mark of a Spark worker's command line; these processes are plain Python.
    monkeypatch.setattr("app.products.demo.kill.WORKER_WORD", HOLDER)
    started = Workers(kafka.bootstrap_servers)
    yield started
    for process in started.processes:
        process.kill()
        process.communicate()


def journal_of(kafka: KafkaCluster, prefix: str) -> list[JournalRecord]:
    return list(read_transaction_journal({"bootstrap.servers": kafka.bootstrap_servers}, prefixes=(prefix,)))


def test_only_the_worker_with_an_open_transaction_is_killed(
    kafka: KafkaCluster, workers: Workers, make_topic: MakeTopic, topic_name: str
) -> None:
    topic = make_topic()
    idle = workers.start(topic=topic, transactional_id=f"{topic_name}.idle", is_open=False)
    busy = workers.start(topic=topic, transactional_id=f"{topic_name}.busy", is_open=True)
    tail = IdTail(
        bootstrap_servers=kafka.bootstrap_servers,
        transactional_ids=[f"{topic_name}.idle", f"{topic_name}.busy"],
    )
    kill = kill_inside_a_transaction(tail, [idle, busy])
    tail.close()
    assert kill is not None
    assert kill.pid == busy.pid
    wait_for(lambda: workers.processes[1].poll() == -signal.SIGKILL, 10, "the end of the busy worker")
    assert psutil.Process(idle.pid).status() != psutil.STATUS_STOPPED, "the idle worker was left frozen"


def test_without_an_open_transaction_no_worker_is_killed_or_left_frozen(
    kafka: KafkaCluster, workers: Workers, make_topic: MakeTopic, topic_name: str
) -> None:
    idle = workers.start(topic=make_topic(), transactional_id=topic_name, is_open=False)
    tail = IdTail(bootstrap_servers=kafka.bootstrap_servers, transactional_ids=[topic_name])
    assert kill_inside_a_transaction(tail, [idle]) is None
    tail.close()
    wait_for(lambda: psutil.Process(idle.pid).status() != psutil.STATUS_STOPPED, 10, "the idle worker being continued")


def test_the_brokers_word_is_an_abort_and_then_a_commit_of_a_later_incarnation(
    kafka: KafkaCluster, workers: Workers, make_topic: MakeTopic, topic_name: str
) -> None:
    topic = make_topic()
    busy = workers.start(topic=topic, transactional_id=topic_name, is_open=True)
    tail = IdTail(bootstrap_servers=kafka.bootstrap_servers, transactional_ids=[topic_name])
    kill = kill_inside_a_transaction(tail, [busy])
    assert kill is not None
    assert not tail.has_committed_since(kill)
    before = aftermath(journal_of(kafka, topic_name), kill)
    assert (before.was_aborted, before.committed_again) == (False, False)

    successor = transactional_producer(kafka.bootstrap_servers, topic_name)
    aborted = aftermath(journal_of(kafka, topic_name), kill)
    assert (aborted.was_aborted, aborted.committed_again) == (True, False)
    assert not tail.has_committed_since(kill)

    successor.begin_transaction()
    successor.produce(topic, b"y")
    successor.commit_transaction(30)
    wait_for(lambda: tail.has_committed_since(kill), 10, "the successor's commit in the journal")
    tail.close()
    wait_for(
        lambda: aftermath(journal_of(kafka, topic_name), kill).committed_again,
        30,
        "the successor's commit in the journal",
    )
    counts = count_transactions(journal_of(kafka, topic_name), prefixes=(topic_name,))
    assert (counts.committed, counts.aborted, counts.takeovers, counts.timeouts) == (2, 1, 1, 0)


def test_a_process_that_is_no_spark_worker_is_never_signalled(kafka: KafkaCluster, topic_name: str) -> None:
    tail = IdTail(bootstrap_servers=kafka.bootstrap_servers, transactional_ids=[topic_name])
    with pytest.raises(EmbeddedError, match="no Spark worker"):
        kill_inside_a_transaction(tail, [report(os.getpid(), topic_name)])
    tail.close()
