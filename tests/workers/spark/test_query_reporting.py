"""The reports of a query's driver: no batch is lost while the server is away, and writers look like tasks."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from app.core.runs.task import DesiredTaskState, PartitionProgress, TaskState
from app.core.wire.drill import DrillAct, DrillOrder
from app.core.wire.heartbeat import HeartbeatAnswer, TaskHeartbeat
from app.core.wire.specification import TaskIdentity
from app.products.dataframes.wire import LARGEST_REPORT, BatchProgress, QueryAnswer, QueryReport, QueryState
from tests.support.waiting import wait_for
from tests.workers.spark.test_query_progress import of
from tests.workers.spark.test_watch import SPECIFICATION
from workers.server_client import ServerAwayError, ServerClient
from workers.spark.query_reporting import MOST_KEPT, BatchReporter, WriterReports


class PlayedClient:
    """A server that is there or away, stores or does not."""

    is_configured = True

    def __init__(self) -> None:
        self.is_away = False
        self.stores = True
        self.drill: DrillOrder | None = None
        self.sent: list[Any] = []
        self.lock = threading.Lock()

    def post(self, path: str, message: Any, answer: type[Any], *, timeout_s: float | None = None) -> Any:
        with self.lock:
            if self.is_away:
                raise ServerAwayError("nothing answers")
            self.sent.append(message)
        if answer is QueryAnswer:
            return QueryAnswer(stored=self.stores)
        return HeartbeatAnswer(desired=DesiredTaskState.RUN, is_current=True, database_epoch="e", drill=self.drill)

    def close(self) -> None: ...


def batch(number: int) -> BatchProgress:
    return replace(of().to_wire(), batch=number)


@pytest.fixture
def client() -> PlayedClient:
    return PlayedClient()


@pytest.fixture
def reporter(client: PlayedClient) -> Generator[BatchReporter]:
    made = BatchReporter(SPECIFICATION, cast(ServerClient, client), interval_s=0.05)
    made.start()
    yield made
    made.close()


def numbers(client: PlayedClient) -> list[list[int]]:
    reports = [cast(QueryReport, sent) for sent in client.sent]
    return [[each.batch for each in report.batches] for report in reports if report.batches]


def test_a_stored_batch_is_sent_once(client: PlayedClient, reporter: BatchReporter) -> None:
    reporter.publish("q", QueryState.RUNNING, [batch(1)])
    wait_for(lambda: len(client.sent) >= 3, 5, "three reports")
    assert numbers(client) == [[1]]
    assert client.sent[-1].state is QueryState.RUNNING


def test_nothing_is_sent_before_the_query_has_an_id(client: PlayedClient, reporter: BatchReporter) -> None:
    reporter.close()
    assert client.sent == []


def test_batches_wait_for_a_server_that_is_away_or_does_not_store(
    client: PlayedClient, reporter: BatchReporter
) -> None:
    client.is_away = True
    reporter.publish("q", QueryState.RUNNING, [batch(1), batch(2)])
    client.stores = False
    client.is_away = False
    wait_for(lambda: numbers(client)[:2] == [[1, 2], [1, 2]], 5, lambda: f"two reports; {numbers(client)}")
    client.stores = True
    before = len(numbers(client))
    reporter.publish("q", QueryState.RUNNING, [batch(3)])
    wait_for(lambda: client.sent[-1].batches == (), 5, "an empty report")
    assert [1, 2, 3] in numbers(client)[before:] or [3] in numbers(client)[before:]


def test_more_batches_than_a_report_has_are_sent_in_several_oldest_first(
    client: PlayedClient, reporter: BatchReporter
) -> None:
    client.is_away = True
    reporter.publish("q", QueryState.RUNNING, [batch(number) for number in range(2 * LARGEST_REPORT + 5)])
    client.is_away = False
    wait_for(lambda: len(numbers(client)) == 3, 5, lambda: f"three reports; {numbers(client)}")
    assert [len(each) for each in numbers(client)] == [LARGEST_REPORT, LARGEST_REPORT, 5]
    assert [number for each in numbers(client) for number in each] == list(range(2 * LARGEST_REPORT + 5))


def test_only_the_newest_batches_wait_for_a_server_that_is_away_for_long(
    client: PlayedClient, reporter: BatchReporter
) -> None:
    client.is_away = True
    reporter.publish("q", QueryState.RUNNING, [batch(number) for number in range(MOST_KEPT + 5)])
    client.is_away = False
    wait_for(lambda: bool(numbers(client)), 5, "a report")
    assert numbers(client)[0][0] == 5


def test_the_last_batches_are_sent_at_the_end(client: PlayedClient, reporter: BatchReporter) -> None:
    client.is_away = True
    reporter.publish("q", QueryState.HELD, [batch(1)])
    client.is_away = False
    reporter.close()
    assert numbers(client)[-1] == [1]


def test_the_driver_gets_an_order_of_a_drill_from_the_first_writer_only() -> None:
    order = DrillOrder(drill_id="d", act=DrillAct.KILL, for_s=1, begin_within_s=9)
    specification = replace(
        SPECIFICATION, tasks=tuple(TaskIdentity(task=writer, transactional_id=f"t.{writer}") for writer in range(2))
    )
    clients = [PlayedClient() for _ in range(4)]
    unused = iter(clients)
    heard: list[DrillOrder] = []
    for each in clients:
        each.drill = order
    writers = WriterReports(
        specification, host="h", client=lambda: cast(ServerClient, next(unused)), drilled=heard.append
    )
    writers.start()
    writers.close()
    beats = [cast(TaskHeartbeat, sent) for each in clients for sent in each.sent]
    assert {beat.task for beat in beats} == {0, 1}
    assert heard == [order] * sum(beat.task == 0 for beat in beats)


def test_the_first_writer_has_the_partitions_and_rows_and_each_its_transactions() -> None:
    clients: list[PlayedClient] = []

    def new() -> ServerClient:
        clients.append(PlayedClient())
        return cast(ServerClient, clients[-1])

    specification = replace(
        SPECIFICATION, tasks=tuple(TaskIdentity(task=writer, transactional_id=f"t.{writer}") for writer in range(2))
    )
    writers = WriterReports(specification, host="h", client=new)
    sink = {"metrics": {"groupGeneration": "3", "rowsCommitted": "70", "batchesCommitted": "2"}}
    writers.publish(TaskState.RUNNING, [of(batchId=11, sink=sink), of(sink=sink)])
    writers.start()
    writers.close()
    beats = [cast(TaskHeartbeat, sent) for each in clients for sent in each.sent[-1:]]
    first, second = sorted(beats, key=lambda beat: beat.task)
    assert first.transactional_id == "t.0"
    assert first.generation == second.generation == 3
    assert (first.counters.records_in, first.counters.records_out) == (400, 70)
    assert first.counters.transactions_committed == second.counters.transactions_committed == 2
    assert first.partitions[0] == PartitionProgress(topic="flights", partition=0, position=80, committed=80, end=131)
    assert (second.counters.records_in, second.partitions) == (0, ())
