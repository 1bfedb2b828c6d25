"""A driver that lives as long as tests let it, a topic of events, and jobs of their own for each test."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.support.dataframes.drivers import Driver, driver
from tests.support.dataframes.jobs import EVENTS, Job, Rows, comparable, write_events
from tests.support.topics import create_topic, unique_name


class Drivers:
    """One living driver after the other, so that a test starts one only after it has killed one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._living: Driver | None = None

    def living(self) -> Driver:
        if self._living is None or self._living.process.poll() is not None:
            self.close()
            context = driver(self._folder, master="local[2,3]")
            self._living = context.__enter__()
            self._context = context
        return self._living

    def close(self) -> None:
        if self._living is not None:
            self._context.__exit__(None, None, None)
            self._living = None


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Generator[Drivers]:
    found = Drivers(tmp_path_factory.mktemp("dataframes"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def events(kafka: KafkaCluster) -> str:
    """A topic of EVENTS events over four partitions, ten a second of event time."""
    topic = unique_name("events")
    create_topic(kafka.bootstrap_servers, topic, partitions=4)
    write_events(kafka.bootstrap_servers, topic, EVENTS)
    return topic


MakeJob = Callable[[], Job]


@pytest.fixture(scope="module")
def make_job(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> MakeJob:
    def make() -> Job:
        topic = unique_name("out")
        create_topic(kafka.bootstrap_servers, topic, partitions=4)
        return Job(kafka.bootstrap_servers, unique_name("job"), topic, tmp_path_factory.mktemp("job") / "checkpoint")

    return make


Control = Callable[[str], Rows]


@pytest.fixture(scope="module")
def control(drivers: Drivers, events: str, make_job: MakeJob) -> Control:
    """What a query of this kind writes when nothing is killed."""
    known: dict[str, Rows] = {}

    def of(kind: str) -> Rows:
        if kind not in known:
            job = make_job()
            drivers.living().run(**job.order(events, kind))
            known[kind] = comparable(kind, job.rows())
        return known[kind]

    return of
