"""Pipelines on the shared broker."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.support.lakes import Bucket
from tests.support.living_clients import living_clients
from tests.support.object_store import S3, FaultyProxy, serving_s3
from tests.support.offset_log import Recorders
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess
from tests.support.topics import delete_topics, unique_name
from workers.loop.control import TaskSpecification
from workers.loop.producing.overdue import THREAD_NAME


class MakePipeline(Protocol):
    def __call__(
        self, *, partitions: int = 2, sink_config: dict[str, str] | None = None, **settings: Any
    ) -> TestPipeline: ...


@pytest.fixture
def make_pipeline(kafka: KafkaCluster) -> Generator[MakePipeline]:
    """Fresh pipelines on `kafka`; `settings` are fields of the definition. Their topics go when the test is over."""
    made: list[TestPipeline] = []

    def make(*, partitions: int = 2, sink_config: dict[str, str] | None = None, **settings: Any) -> TestPipeline:
        pipeline = TestPipeline.create(
            kafka.bootstrap_servers, partitions=partitions, sink_config=sink_config, **settings
        )
        made.append(pipeline)
        return pipeline

    yield make
    delete_topics(kafka.bootstrap_servers, [topic for pipeline in made for topic in (pipeline.source, pipeline.sink)])


@pytest.fixture(autouse=True)
def no_client_is_left(kafka: KafkaCluster) -> Generator[None]:
    """An attempt leaves no client behind, however it ended: each would keep its threads and its connections.

    An exception is a client in a call that does not return: it lives as long as that call (docs/loop.md).
    """
    before = living_clients() - _overdue_calls()
    yield
    left = living_clients() - _overdue_calls() - before
    assert left <= 0, f"{left} clients are left; threads: {[thread.name for thread in threading.enumerate()]}"


def _overdue_calls() -> int:
    return sum(thread.name == THREAD_NAME for thread in threading.enumerate())


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> Recorders:
    """The offset events of the attempts in this process."""
    made = Recorders()
    monkeypatch.setattr("workers.loop.task.OffsetRecorder", made)
    return made


@pytest.fixture
def uncontradicted_offsets(recorders: Recorders) -> Generator[None]:
    """When the test is over, nothing that its attempts recorded of their offsets contradicts the rest."""
    yield
    verdicts = recorders.verdicts()
    assert {name: verdict.contradictions for name, verdict in verdicts.items() if verdict.contradictions} == {}


class StartProcess(Protocol):
    def __call__(
        self,
        specification: TaskSpecification,
        *,
        transform: str = "identity",
        environment: Mapping[str, str] | None = None,
    ) -> TaskProcess: ...


@pytest.fixture
def start_process(tmp_path: Path) -> Generator[StartProcess]:
    """Tasks as processes; those that still run at the end are killed, frozen or not."""
    started: list[TaskProcess] = []

    def start(
        specification: TaskSpecification,
        *,
        transform: str = "identity",
        environment: Mapping[str, str] | None = None,
    ) -> TaskProcess:
        folder = tmp_path / f"process-{len(started)}"
        process = TaskProcess(specification, folder, transform=transform, environment=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        process.close()


@pytest.fixture(scope="session")
def s3() -> Generator[S3]:
    with serving_s3() as server:
        yield server


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Generator[Bucket]:
    """A broker of the test's own, behind a proxy without faults at first. Tasks of this process find it."""
    proxy = FaultyProxy(s3.port)
    made = Bucket(s3, unique_name("bucket"), proxy)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    proxy.close()
