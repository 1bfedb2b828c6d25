"""The file sinks of a task and their producers: what one checkpoint leaves behind is nothing to the next."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import ByField, FileSink, PipelineDefinition
from tests.workers.loop.test_checkpoint import ScriptedProducer
from workers.loop.client_config import Batches
from workers.loop.control import TaskSpecification
from workers.loop.errors import AbortableError, LoopError
from workers.loop.producing.file_producer import FileProducer
from workers.loop.producing.task_files import TaskFiles
from workers.loop.slices import CallPatience
from workers.sinks import avro_file
from workers.sinks.file_sink import Dated
from workers.transforms import Output

DEADLINE_S = 10.0


class KeepsReferences(ScriptedProducer):
    def __init__(self) -> None:
        super().__init__()
        self.references: list[dict[str, Any]] = []

    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None:
        self.references += [msgspec.json.decode(output.value or b"") for output in outputs]

    @property
    def records(self) -> int:
        return sum(reference["records"] for reference in self.references)


class Task:
    """One lane of a task that writes files, and its producers, one after another."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "lake"
        self.root.mkdir()
        settings = FileSink(root=self.root.as_uri(), partition_by=(ByField(name="user", field="user"),))
        definition = PipelineDefinition(
            cluster="c",
            source_topics=("in",),
            sink_topic="references",
            group_id="g",
            transactional_id_prefix="fl",
            files=settings,
        )
        specification = TaskSpecification(
            pipeline="flights",
            run_id="r",
            ordinal=0,
            lease=1,
            task=0,
            attempt=1,
            definition=definition,
            client_config={},
            transactional_id="fl.0",
        )
        self.files = TaskFiles(specification, settings)
        self.made: list[KeepsReferences] = []
        self._make = self.files.into_files(self._made, transactional_id="fl.0")

    def _made(self, _batches: Batches) -> KeepsReferences:
        self.made.append(KeepsReferences())
        return self.made[-1]

    def producer(self) -> FileProducer:
        producer = self._make(Batches())
        assert isinstance(producer, FileProducer)
        return producer


@pytest.fixture
def task(tmp_path: Path) -> Generator[Task]:
    task = Task(tmp_path)
    yield task
    task.files.close()


def fill(producer: FileProducer, users: range) -> None:
    producer.begin()
    for offset, user in enumerate(users):
        value = msgspec.json.encode({"user": f"u{user}", "id": offset})
        producer.sink.add([Dated(value, None)], source=("in", 0), offset=offset)


@contextmanager
def standing_still(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[threading.Event, threading.Event]]:
    """The disk, from the first file on: it has begun, and it goes on."""
    write, begun, goes_on = avro_file.write, threading.Event(), threading.Event()

    def slow(*arguments: Any, **named: Any) -> avro_file.Written:
        if not begun.is_set():
            begun.set()
            assert goes_on.wait(DEADLINE_S)
        return write(*arguments, **named)

    monkeypatch.setattr(avro_file, "write", slow)
    yield begun, goes_on
    goes_on.set()


def in_a_thread(action: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        with suppress(LoopError):
            action()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_an_abandoned_ending_takes_nothing_from_the_next_checkpoint(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a lane whose commit is overdue: its producer is let go of and replaced, while the call still runs."""
    first = task.producer()
    fill(first, range(3))
    with standing_still(monkeypatch) as (begun, goes_on):
        late = in_a_thread(lambda: first.flush(patience=CallPatience(0.1)))
        assert begun.wait(DEADLINE_S)
        first.discard()
        second = task.producer()
        fill(second, range(100, 110))
        goes_on.set()
        late.join(DEADLINE_S)
    second.flush(patience=CallPatience(DEADLINE_S))
    assert task.made[1].records == 10


def test_a_commit_that_is_confirmed_too_late_lets_go_of_its_own_files_alone(task: Task) -> None:
    first = task.producer()
    fill(first, range(3))
    first.flush(patience=CallPatience(DEADLINE_S))

    def replaced() -> None:
        first.discard()
        fill(second, range(100, 110))

    second = task.producer()
    first.commit(patience=CallPatience(1.0), confirmed=replaced)
    second.flush(patience=CallPatience(DEADLINE_S))
    assert task.made[1].records == 10


def test_checkpoints_are_numbered_on_over_producers(task: Task) -> None:
    for number in (1, 2):
        producer = task.producer()
        fill(producer, range(1))
        producer.flush(patience=CallPatience(DEADLINE_S))
        assert [reference["checkpoint"] for reference in task.made[-1].references] == [number]
        producer.discard()


def test_after_uploads_that_were_late_fewer_records_are_polled_at_once(task: Task) -> None:
    assert task.files.most_polled() == sys.maxsize
    producer = task.producer()
    fill(producer, range(40))
    with pytest.raises(AbortableError):
        producer.flush(patience=CallPatience(0.0))
    # A record makes a file, 20 files are what a checkpoint may have, and a batch may be half of one.
    assert task.files.most_polled() == 10
    producer.discard()
    successor = task.producer()
    assert task.files.most_polled() == 10, "what the store takes does not depend on the producer"
    successor.discard()
