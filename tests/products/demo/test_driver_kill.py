"""The demo kills a driver only between the commit of a batch and the checkpoint's record of it."""

import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.kafka import KafkaCluster
from app.products.demo.driver_kill import KilledDriver, kill_after_a_commit
from app.products.demo.kill import IdTail
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.waiting import wait_for

LOOKS = 20


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Generator[subprocess.Popen[bytes]]:
    """A process that stands for a driver's JVM."""
    monkeypatch.setattr("app.products.demo.driver_kill._DRIVER_WORD", "time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


class Batches:
    """The batches of a query: each is planned in its checkpoint, and committed in a transaction."""

    def __init__(self, kafka: KafkaCluster, topic: str, name: str, checkpoint: Path) -> None:
        self._bootstrap, self._topic, self._name, self.checkpoint = kafka.bootstrap_servers, topic, name, checkpoint
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
        initialise(self._producer)
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)

    def plan(self, batch: int) -> None:
        (self.checkpoint / "offsets" / str(batch)).touch()

    def record(self, batch: int) -> None:
        (self.checkpoint / "commits" / str(batch)).touch()

    def commit(self) -> None:
        self.begin()
        self.end()

    def begin(self) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"row")
        self._producer.flush(20)

    def end(self) -> None:
        self._producer.commit_transaction(20)

    def kill(self, pid: int, *, looks: int = LOOKS) -> KilledDriver | None:
        looked = itertools.count()
        tail = IdTail(bootstrap_servers=self._bootstrap, transactional_ids=[self._name])
        try:
            # Each look reads one record, and other tests have written into the partition of this id.
            assert tail.state_of(self._name) is not None
            return kill_after_a_commit(
                tail, self._name, pid=pid, checkpoint=self.checkpoint, give_up=lambda: next(looked) > looks
            )
        finally:
            tail.close()


@pytest.fixture
def batches(kafka: KafkaCluster, make_topic: MakeTopic, topic_name: str, tmp_path: Path) -> Batches:
    return Batches(kafka, make_topic(), topic_name, tmp_path / "checkpoint")


def test_a_driver_whose_commit_is_not_recorded_is_killed(driver: subprocess.Popen[bytes], batches: Batches) -> None:
    batches.plan(0)
    batches.commit()
    assert batches.kill(driver.pid) == KilledDriver(driver.pid, 0)
    wait_for(lambda: driver.poll() == -signal.SIGKILL, 10, "the end of the driver")


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_driver_is_left_alone_after_the_record_and_before_the_next_commit(
    driver: subprocess.Popen[bytes], batches: Batches, is_recorded: bool
) -> None:
    batches.plan(0)
    batches.commit()
    batches.record(0)
    if not is_recorded:
        # Its rows may be in no transaction yet.
        batches.plan(1)
    assert batches.kill(driver.pid) is None
    assert driver.poll() is None
    assert psutil.Process(driver.pid).status() != psutil.STATUS_STOPPED, "the driver was left frozen"


def test_a_driver_is_stepped_from_the_begin_of_its_transaction_to_the_commit(
    driver: subprocess.Popen[bytes], batches: Batches
) -> None:
    batches.plan(0)
    batches.begin()
    kills: list[KilledDriver | None] = []
    killing = threading.Thread(target=lambda: kills.append(batches.kill(driver.pid, looks=10_000)))
    killing.start()
    seen: set[str] = set()

    def is_stepped() -> bool:
        seen.add(psutil.Process(driver.pid).status())
        return {psutil.STATUS_STOPPED, psutil.STATUS_SLEEPING} <= seen

    wait_for(is_stepped, 10, "the driver stopped at times")
    assert driver.poll() is None, "nothing is committed yet"
    batches.end()
    killing.join(20)
    assert kills == [KilledDriver(driver.pid, 0)]


def test_a_process_that_is_no_driver_is_not_signalled(batches: Batches) -> None:
    with pytest.raises(EmbeddedError, match="is no driver of Spark"):
        batches.kill(psutil.Process().pid)
