"""The sink of DataFrames on a real broker: what is killed and repeated is in Kafka once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from app.edges.embedded.kafka import KafkaCluster
from tests.support.dataframes.drivers import Driver, DriverDiedError, driver, mutated_sink
from tests.support.quiet import QUIET
from tests.support.topics import create_topic, unique_name
from tests.support.verifier import read_all

KINDS = ["stateless", "random_rows", "window", "join", "dedup", "transform_with_state"]
STEPS = ["CLAIMED", "FENCED", "CHECKED", "PLANNED", "READY", "MARKED", "SENT", "COMMITTED", "ENDED"]
EVENTS = 4000
EACH = 1000
CARRIERS = ["AA", "B6", "DL", "UA"]

Rows = Counter[tuple[bytes | None, bytes | None]]


class Job(NamedTuple):
    """A query of one test: its own topic, name and checkpoint."""

    bootstrap_servers: str
    name: str
    topic: str
    checkpoint: Path

    def order(self, source: str, kind: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "source": source,
            "kind": kind,
            "name": self.name,
            "topic": self.topic,
            "checkpoint": str(self.checkpoint),
            "each": EACH,
            **more,
        }

    def rows(self, topic: str | None = None) -> Rows:
        return Counter((found.key, found.value) for found in read_all(self.bootstrap_servers, topic or self.topic))


class Drivers:
    """One living driver after the other, so that a test starts one only after it has killed one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack: list[Generator[Driver]] = []
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
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    for number in range(EVENTS):
        event = {"id": number, "carrier": CARRIERS[number % 7 % 4], "delay": number % 61 - 20, "t": 1_700_000_000 + number // 10}
        producer.produce(topic, key=str(number % 97).encode(), value=json.dumps(event).encode(), partition=number % 4)
    assert producer.flush(30) == 0
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


def comparable(kind: str, rows: Rows) -> Rows:
    """Rows of a query that is not deterministic without their random part."""
    if kind != "random_rows":
        return rows
    return Counter({(key, (value or b"").rpartition(b" ")[0]): count for (key, value), count in rows.items()})


def run_until_killed(driver: Driver, **order: Any) -> None:
    driver.begin(do="run", **order)
    try:
        answer = driver.answer()
    except DriverDiedError:
        return
    # The JVM is gone; its Python driver may live.
    assert "error" in answer, f"nothing was killed: {answer}"
    driver.kill()


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_killed_at_a_step_writes_the_batch_once(
    step: str, kind: str, drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control(kind)
    job = make_job()
    driver = drivers.living()
    # The first three belong to the start of a query, not to a batch.
    driver.stop_at(step, batch=None if step in STEPS[:3] else 1)
    run_until_killed(driver, **job.order(events, kind))
    drivers.living().run(**job.order(events, kind))
    assert comparable(kind, job.rows()) == expected


@pytest.mark.slow
def test_a_failed_attempt_is_repeated_by_spark_and_writes_once(
    drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    for step in ("READY", "MARKED", "SENT", "COMMITTED"):
        job = make_job()
        driver = drivers.living()
        driver.stop_at(step, batch=1, action="fail")
        progress = driver.run(**job.order(events, "random_rows"))
        assert driver.has_reached(step)
        assert comparable("random_rows", job.rows()) == control("random_rows"), step
        drained = int(progress[-1]["sink"]["metrics"]["sharesFoundCommitted"])
        assert drained == (1 if step == "COMMITTED" else 0), step


@pytest.mark.slow
def test_without_the_marker_the_killed_batch_is_written_twice(
    tmp_path: Path, drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control("stateless")
    ignored = mutated_sink(tmp_path, [("Batch.java", "    if (marker.batch() < number) {", "    if (marker.batch() <= number) {")])
    job = make_job()
    with driver(tmp_path, sink_jar=ignored) as first:
        first.stop_at("COMMITTED", batch=1)
        run_until_killed(first, **job.order(events, "stateless"))
    with driver(tmp_path, sink_jar=ignored) as second:
        second.run(**job.order(events, "stateless"))
    found = job.rows()
    assert found - expected
    assert sum((found - expected).values()) == EACH


@pytest.mark.slow
def test_the_windows_are_those_of_a_batch_computation(control: Control) -> None:
    found = [json.loads(value or b"") for _, value in control("window").elements()]
    wanted: Counter[tuple[int, str]] = Counter()
    delays: Counter[tuple[int, str]] = Counter()
    for number in range(EVENTS):
        window = (1_700_000_000 + number // 10) // 10 * 10, CARRIERS[number % 7 % 4]
        wanted[window] += 1
        delays[window] += number % 61 - 20
    assert len(found) > 100
    assert all((each["n"], each["delay"]) == (wanted[key], delays[key]) for each in found for key in [(each["start"], each["carrier"])])
    assert len({(each["start"], each["carrier"]) for each in found}) == len(found)
