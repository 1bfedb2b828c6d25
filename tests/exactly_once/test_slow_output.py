"""An output side that is slower than a transaction timeout allows: checkpoints get smaller, and grow again."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from tests.fault_suite.proxied_cluster import ProxiedCluster
from tests.fault_suite.proxy import Conditions, Direction
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.control import TaskSpecification

SLOW = Conditions(bytes_per_s=30_000, slowed=frozenset({Direction.TO_BROKER}))
"""A transaction of this test may have some 60 records of a kilobyte."""
TIMEOUT_MS = 2_000
RECORDS = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[ProxiedCluster]:
    folder: Path = tmp_path_factory.mktemp("slow-output")
    with ProxiedCluster(1, folder) as made:
        yield made


@pytest.fixture
def slow(cluster: ProxiedCluster) -> Generator[ProxiedCluster]:
    yield cluster
    cluster.proxies[0].heal()


def large(identity: str) -> bytes:
    return identity.encode() + b" " + b"x" * 1_000


def make(cluster: ProxiedCluster, guarantee: ProcessingGuarantee) -> tuple[TestPipeline, TaskSpecification]:
    pipeline = TestPipeline.create(
        cluster.bootstrap_servers,
        partitions=1,
        value_of=large,
        processing_guarantee=guarantee,
        transaction_timeout_ms=TIMEOUT_MS,
    )
    specification = pipeline.specification()
    behind = {**specification.client_config, "bootstrap.servers": cluster.proxied}
    return pipeline, msgspec.structs.replace(specification, client_config=behind)


def make_slow(cluster: ProxiedCluster, pipeline: TestPipeline, task: TaskThread) -> None:
    """When it has learned that batches are quick; then there is far more to write than a transaction may have."""
    for _ in range(10):
        pipeline.feed(100)
        task.wait_for_records(len(pipeline.fed))
    cluster.proxies[0].impose(SLOW)
    pipeline.feed(RECORDS)


@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_records_come_through_at_the_speed_of_the_output_side(
    slow: ProxiedCluster, guarantee: ProcessingGuarantee
) -> None:
    pipeline, specification = make(slow, guarantee)
    with running(specification) as task:
        make_slow(slow, pipeline, task)
        before = len(pipeline.fed) - RECORDS
        task.wait_until(
            lambda seen: before + 20 < seen.counters.records_in < len(pipeline.fed), "some of them", deadline_s=60
        )
        told = [event.message for event in task.control.events if "The next checkpoint holds at most" in event.message]
        assert told, task.control.events
        assert any("outputs were delivered in time" in message for message in told)
        assert any("broker 1 (" in message for message in told), told
        slow.proxies[0].heal()
        task.wait_for_records(len(pipeline.fed))
        task.drain()
    if guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        assert not pipeline.audit().lost
    else:
        pipeline.assert_whole()


def test_without_smaller_checkpoints_nothing_is_ever_committed_and_that_is_reported(
    slow: ProxiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    def as_large_as_before(_self: CheckpointSize, _records: int, *, delivered: float) -> None:
        del delivered

    monkeypatch.setattr(CheckpointSize, "shrink", as_large_as_before)
    pipeline, specification = make(slow, ProcessingGuarantee.EXACTLY_ONCE_V2)
    with running(specification) as task:
        make_slow(slow, pipeline, task)
        before = task.control.last.counters
        assert before.records_in < len(pipeline.fed)
        task.wait_until(lambda seen: seen.not_progressing_ms is not None, "that it does not progress", deadline_s=60)
        found = task.control.last.counters
        assert found.transactions_aborted + found.fencings + found.transactions_unknown >= 2
        assert found.records_in == before.records_in
        assert EventKind.SUPERSEDED not in task.control.kinds()
        slow.proxies[0].heal()
        task.wait_for_records(len(pipeline.fed))
        task.wait_until(lambda seen: seen.not_progressing_ms is None, "that it progresses")
        task.drain()
    pipeline.assert_whole()
