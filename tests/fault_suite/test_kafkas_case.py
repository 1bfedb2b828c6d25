"""The case of Kafka's own transactions_test.py: records are copied in transactions, a third of which are aborted by
chance, while copiers or brokers go down, hard or clean; then compare the sets, and the order.

Unlike there, copiers share a group: the partitions of an absent one are taken over. And beside the sets, each
transaction must be whole.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaBroker
from tests.fault_suite.copier import Copier
from tests.fault_suite.leaders import At
from tests.fault_suite.proxy import Conditions
from tests.fault_suite.reading import Follower
from tests.fault_suite.standstill import Standstills
from tests.fault_suite.task_stage import TaskStage
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow]

RECORDS = 100_000
A_TRANSACTION = 750
ABORTED = 1 / 3
ROUNDS = 3
PROGRESS = 0.2
WITHIN_S = 120.0
# Else the whole of it would be copied before the first one is killed.
SLOW = Conditions(bytes_per_s=1_000_000)
# Records read ahead are read again after an abort, over a slow network.
SMALL_FETCHES = {"fetch.message.max.bytes": "200000"}

NOBODY = -1

Bounce = Callable[[TaskStage], None]


def killed_copiers(stage: TaskStage) -> None:
    bounce_copiers(stage, signal.SIGKILL)


def drained_copiers(stage: TaskStage) -> None:
    bounce_copiers(stage, signal.SIGTERM)


def killed_brokers(stage: TaskStage) -> None:
    bounce_brokers(stage, KafkaBroker.kill)


def restarted_brokers(stage: TaskStage) -> None:
    bounce_brokers(stage, KafkaBroker.stop)


def bounce_brokers(stage: TaskStage, end: Callable[[KafkaBroker], None]) -> None:
    for broker in stage.cluster.kafka.brokers:
        wait_for_progress(stage)
        bounce_broker(stage, broker, end)


def bounce_broker(stage: TaskStage, broker: KafkaBroker, end: Callable[[KafkaBroker], None]) -> None:
    """It stays away until others lead all that it has led: coordinators' partitions, and those of source and sink."""

    def still_led() -> list[At]:
        now = stage.cluster.leaders()
        return [at for at in led if now[at] in (broker.node_id, NOBODY)]

    led = [at for at, leader in stage.cluster.leaders().items() if leader == broker.node_id]
    assert led, f"broker {broker.node_id} leads nothing: nothing would move"
    end(broker)
    wait_for(lambda: not still_led(), WITHIN_S, lambda: f"other leaders than {broker.node_id} of {still_led()}")
    broker.start()
    stage.cluster.wait_until_in_sync()
    assert still_led() == [], "it has got back what it had led, by itself"


def bounce_copiers(stage: TaskStage, how: signal.Signals) -> None:
    for _ in range(ROUNDS):
        for task in stage.workers.tasks:
            wait_for_progress(stage)
            attempt = stage.workers.current(task).pid
            os.kill(attempt, how)
            wait_for(
                lambda task=task, attempt=attempt: stage.workers.current(task).pid != attempt,
                WITHIN_S,
                f"another attempt of task {task}",
            )


def wait_for_progress(stage: TaskStage) -> None:
    """A fifth of its share of what is left, of which there are as many shares as copiers."""
    consumed = sum(stage.facts.consumed().values())
    wanted = consumed + int((RECORDS - consumed) * PROGRESS / len(stage.workers.tasks))
    wait_for(
        lambda: sum(stage.facts.consumed().values()) >= wanted,
        WITHIN_S,
        lambda: f"{wanted} records consumed; it is at {stage.facts.consumed()}",
    )


@pytest.fixture
def stage(
    tmp_path: Path, seed: int, protocol: GroupProtocol, partitions: int, sink_partitions: int
) -> Generator[TaskStage]:
    copier = Copier(records=A_TRANSACTION, aborted=ABORTED, seed=seed)
    with TaskStage(
        seed,
        tmp_path,
        brokers=3,
        protocol=protocol,
        environment=copier.environment(),
        client_config=SMALL_FETCHES,
        partitions=partitions,
        sink_partitions=sink_partitions,
        # A transaction is full long before.
        commit_interval_ms=1_000,
    ) as stage:
        yield stage


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("bounce", [killed_copiers, drained_copiers, killed_brokers, restarted_brokers])
@pytest.mark.parametrize(("partitions", "sink_partitions"), [(2, 3), (1, 1)], ids=["spread", "ordered"])
def test_every_record_is_copied_once_with_copiers_or_brokers_down(
    stage: TaskStage, tmp_path: Path, bounce: Bounce, partitions: int
) -> None:
    for proxy in stage.cluster.proxies:
        proxy.impose(SLOW)
    facts = stage.facts
    follower = Follower(stage.cluster.bootstrap_servers, stage.pipeline.sink, Standstills())
    follower.start()
    stage.pipeline.feed(RECORDS // partitions)
    bounce(stage)
    assert not facts.is_through(), "the copiers were quicker than those who put them down: make the network slower"
    wait_for(facts.is_through, WITHIN_S, lambda: f"all of {facts.source_ends()}; consumed are {facts.consumed()}")
    stage.drain()
    follower.finish(facts.sink_ends(), deadline_s=WITHIN_S)
    verdict, contradictions = facts.judge(follower.trail, batches_to=tmp_path / "batches.txt")
    assert verdict.is_exact, str(verdict)
    assert not contradictions
    assert verdict.expected == RECORDS
    ended = verdict.transactions + verdict.aborted
    # In about 200 transactions these are more than four standard deviations off.
    assert 0.2 < verdict.aborted / ended < 0.5, verdict
    assert RECORDS / verdict.transactions > A_TRANSACTION / 2, verdict
