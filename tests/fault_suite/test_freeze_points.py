"""Where workers stop: each point where its name says, and a real process that stops there and goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicPartition

from app.edges.spark import package
from tests.fault_suite.freeze_points import FilePoint, FreezePoints, Point, seams, stop_if_asked
from tests.support.file_pipelines import USERS, file_sink, json_value
from tests.support.verifier import make_id
from workers.loop.checkpoint import Checkpoint
from workers.loop.group.membership import Membership
from workers.loop.group.ownership import Ownership
from workers.loop.producing.file_producer import FileProducer
from workers.loop.producing.producers import QueueingProducer
from workers.loop.producing.statistics import Statistics
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.records.polled import PolledMessages
from workers.loop.slices import CallPatience
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.sinks.file_sink import Dated, FileSinkWriter, WriterIdentity
from workers.sinks.parts import Buffers
from workers.sinks.store import UploadStore

_WITHIN_S = 20.0
PATIENCE = CallPatience(1.0, lambda: None)


class FakeClient:
    """Producer and consumer of confluent-kafka in one: notes every call by its name."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_arguments: Any, **_named: Any) -> Any:
            self._steps.append(name)
            return [] if name == "consume" else 0

        return call


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of the client and points, as they come."""
    steps: list[str] = []
    for seam in seams(lambda point: steps.append(point.name)):
        monkeypatch.setattr(seam.owner, seam.name, seam.value)
    return steps


@pytest.fixture
def producer(steps: list[str]) -> TransactionalProducer:
    producer = object.__new__(TransactionalProducer)
    client: Any = FakeClient(steps)
    QueueingProducer.__init__(producer, client, Statistics("fl.t.p.0.0"), {})
    return producer


def _not_heard(*_arguments: Any, **_named: Any) -> None:
    """For who announces."""


def membership_of(client: Any, end_checkpoint: Callable[[], None]) -> Membership:
    ownership = Ownership()
    return Membership(
        client,
        ownership=ownership,
        confirmed=None,
        end_checkpoint=lambda _: end_checkpoint(),
        announce=_not_heard,
        recorder=OffsetRecorder(ownership),
    )


def messages(count: int) -> Any:
    class Message:
        value = key = headers = staticmethod(lambda: None)
        partition = staticmethod(lambda: 0)
        timestamp = staticmethod(lambda: (0, 0))

    return [Message() for _ in range(count)]


def test_points_of_a_transaction_lie_between_the_calls_that_their_names_say(
    steps: list[str], producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_messages(*_arguments: Any, **_named: Any) -> None:
        steps.append("produce")

    monkeypatch.setattr("workers.loop.records.writing.write_messages", write_messages)
    checkpoint = Checkpoint(producer, Ownership())
    producer.write_records(PolledMessages(messages(1)), topic="sink", keep_partition=True)
    producer.write_records(PolledMessages(messages(1)), topic="sink", keep_partition=True)
    consumer: Any = FakeClient(steps)
    checkpoint.commit(consumer, patience=PATIENCE)
    assert steps == [
        "begin_transaction",
        "BEFORE_FIRST_OUTPUT",
        "produce",
        "produce",
        "flush",
        "AFTER_OUTPUTS",
        "consumer_group_metadata",
        "send_offsets_to_transaction",
        "AFTER_OFFSETS",
        "BEFORE_COMMIT",
        "commit_transaction",
    ]


def into_files(producer: TransactionalProducer, folder: Path) -> FileProducer:
    """A producer with a sink before it."""
    lake = folder / "lake"
    sink = FileSinkWriter(
        file_sink(lake),
        WriterIdentity(pipeline="orders", transactional_id="fl.t.orders.0.0", attempt="a"),
        store=UploadStore(lake.as_uri()),
        folder=folder,
        buffers=Buffers(),
    )
    return FileProducer(producer, sink, topic="sink", upload_timeout_s=5.0, transaction_timeout_s=5.0)


def test_points_of_files_come_before_the_transaction_that_refers_to_them(
    steps: list[str], producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_references(_sink: FileSinkWriter) -> Iterator[tuple[str, bytes]]:
        return iter(())

    monkeypatch.setattr(FileSinkWriter, "references", no_references)
    of_files = into_files(producer, tmp_path)
    checkpoint = Checkpoint(of_files, Ownership())
    for offset in range(2):
        outputs = [Dated(json_value(make_id(0, offset * USERS)), None)]
        of_files.sink.add(outputs, source=("orders", 0), offset=offset)
    consumer: Any = FakeClient(steps)
    checkpoint.commit(consumer, patience=PATIENCE)
    assert steps == [
        "WHILE_FILLING",
        "WHILE_FILLING",
        "WHILE_WRITING",
        "WHILE_UPLOADING",
        "AFTER_UPLOADS",
        "begin_transaction",
        "BEFORE_FIRST_OUTPUT",
        "flush",
        "AFTER_OUTPUTS",
        "consumer_group_metadata",
        "send_offsets_to_transaction",
        "AFTER_OFFSETS",
        "BEFORE_COMMIT",
        "commit_transaction",
    ]
    assert {step for step in steps if step in FilePoint.__members__} == set(FilePoint.__members__)


def test_a_checkpoint_without_files_is_at_none_of_their_points(
    steps: list[str], producer: TransactionalProducer, tmp_path: Path
) -> None:
    consumer: Any = FakeClient(steps)
    Checkpoint(into_files(producer, tmp_path), Ownership()).commit(consumer, patience=PATIENCE)
    assert not FilePoint.__members__.keys() & set(steps)


def test_a_transaction_of_offsets_alone_has_no_outputs_to_stop_after(
    steps: list[str], producer: TransactionalProducer
) -> None:
    consumer: Any = FakeClient(steps)
    Checkpoint(producer, Ownership()).commit(consumer, patience=PATIENCE)
    assert [step for step in steps if step.isupper()] == ["AFTER_OFFSETS", "BEFORE_COMMIT"]


def test_points_of_a_revoke_stand_around_the_end_of_the_checkpoint(steps: list[str]) -> None:
    client = FakeClient(steps)
    membership = membership_of(client, lambda: steps.append("end of the checkpoint"))
    consumer: Any = client
    membership.on_revoke(consumer, [TopicPartition("orders", 0)])
    membership.on_assign(consumer, [])
    points = [step for step in steps if step.isupper() or step == "end of the checkpoint"]
    assert points == ["IN_REVOKE", "end of the checkpoint", "BETWEEN_REVOKE_AND_ASSIGN"]
    assert steps.index("BETWEEN_REVOKE_AND_ASSIGN") < steps.index("incremental_assign")


def test_the_first_fetch_after_every_init_is_a_point(steps: list[str], producer: TransactionalProducer) -> None:
    membership = membership_of(FakeClient(steps), lambda: None)
    for _ in range(2):
        producer.init(1.0)
        membership.consume(1, 0.1)
        membership.consume(1, 0.1)
    once = ["init_transactions", "BETWEEN_INIT_AND_FIRST_FETCH", "consume", "consume"]
    assert steps == once * 2


def test_an_init_that_failed_is_no_point(steps: list[str], producer: TransactionalProducer) -> None:
    class Failing:
        def init_transactions(self, _timeout_s: float) -> None:
            raise RuntimeError("no coordinator")

    producer._producer = Failing()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    with pytest.raises(RuntimeError):
        producer.init(1.0)
    membership_of(FakeClient(steps), lambda: None).consume(1, 0.1)
    assert steps == ["consume"]


def test_every_point_has_its_place(steps: list[str], producer: TransactionalProducer) -> None:
    """A worker can stop at every name that a plan may draw."""
    client: Any = FakeClient(steps)
    membership = membership_of(client, lambda: None)
    producer.init(1.0)
    membership.consume(1, 0.1)
    checkpoint = Checkpoint(producer, Ownership())
    producer.write_outputs([], topic="sink")
    checkpoint.commit(client, patience=PATIENCE)
    membership.on_revoke(client, [])
    assert {step for step in steps if step.isupper()} == {point.name for point in Point}


def test_without_a_request_no_worker_stops(tmp_path: Path) -> None:
    points = FreezePoints(tmp_path)
    points.ask(Point.IN_REVOKE, pid=os.getpid() + 1)
    points.ask(Point.BEFORE_COMMIT)
    stop_if_asked(tmp_path, Point.IN_REVOKE)
    assert points.frozen() == {}
    assert points.withdraw(Point.BEFORE_COMMIT)
    assert not points.withdraw(Point.BEFORE_COMMIT)


WORKER = """
import sys
from workers.loop import task
from workers.loop.group.membership import Membership
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import OffsetRecorder
ownership = Ownership()
membership = Membership(
    None,
    ownership=ownership,
    confirmed=None,
    end_checkpoint=lambda _: None,
    announce=print,
    recorder=OffsetRecorder(ownership),
)
for _ in sys.stdin:
    membership.on_revoke(None, [])
    print("revoked", flush=True)
"""


class Worker:
    """A process of its own, as Spark's are: it imports the loop, and is revoked at each line."""

    def __init__(self, points: FreezePoints) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=points.environment_of(os.environ),
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def revoke(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("revoke\n")
        self._process.stdin.flush()

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def points(tmp_path: Path) -> FreezePoints:
    return FreezePoints(tmp_path / "freeze")


@pytest.fixture
def worker(points: FreezePoints) -> Generator[Worker]:
    worker = Worker(points)
    yield worker
    worker.close()


def test_a_worker_stops_whole_and_goes_on_when_it_is_thawed(points: FreezePoints, worker: Worker) -> None:
    worker.revoke()
    assert worker.said() == "revoked\n"
    points.ask(Point.IN_REVOKE)
    worker.revoke()
    assert points.wait_until_frozen(Point.IN_REVOKE, _WITHIN_S) == worker.pid
    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED
    points.thaw(worker.pid)
    assert worker.said() == "revoked\n"
    assert points.frozen() == {}
    # The request is used up.
    worker.revoke()
    assert worker.said() == "revoked\n"


def test_the_one_that_is_named_stops_and_the_end_of_a_test_thaws_it(points: FreezePoints, worker: Worker) -> None:
    points.ask(Point.BETWEEN_REVOKE_AND_ASSIGN, pid=worker.pid)
    points.ask(Point.BEFORE_COMMIT)
    worker.revoke()
    assert points.wait_until_frozen(Point.BETWEEN_REVOKE_AND_ASSIGN, _WITHIN_S) == worker.pid
    points.thaw_all()
    assert worker.said() == "revoked\n"
    assert not points.withdraw(Point.BEFORE_COMMIT)


def test_the_loop_has_its_seams_also_from_the_zip_in_which_it_travels_to_executors(tmp_path: Path) -> None:
    archive = package.build(version="test", into=tmp_path).archive
    looks = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import workers.spark.tasks, workers.loop.task;"
        "from workers.loop.group.membership import Membership;"
        "print(workers.loop.task.__file__, Membership.consume.__wrapped__.__module__)"
    )
    told = subprocess.run(
        [sys.executable, "-c", looks],
        env=FreezePoints(tmp_path / "freeze").environment_of(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == [f"{archive}/workers/loop/task.py", "workers.loop.group.membership"]
