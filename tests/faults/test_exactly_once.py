"""`exactly_once` as a real pipeline: kills, freezes, and partitions that are added, with the server up and away."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from app.core.ids.transactional_id import for_partition
from app.core.pipelines.pipeline import OffsetFencing, ProcessingGuarantee
from tests.support.fault_figures import measured
from tests.support.running_pipeline import RunningPipeline, frozen, now
from tests.support.topics import add_partition
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(scope="module")
def more_fields() -> Mapping[str, Any]:
    return {
        "processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE,
        "offset_fencing": OffsetFencing.GROUP_ONLY,
        "consumer_overrides": {"topic.metadata.refresh.interval.ms": "1000"},
    }


def held_ids(running: RunningPipeline) -> dict[int, str | None]:
    """The id of each owned partition, from the server."""
    found = running.server.get(f"/pipelines/{running.name}/mappings")["items"]
    return {one["partition"]: one["transactional_id"] for one in found if one["owner"] is not None}


def expected_ids(running: RunningPipeline) -> dict[int, str]:
    definition = running.pipeline.definition
    return {
        number: for_partition(
            prefix=definition.transactional_id_prefix,
            group=definition.group_id,
            topic=running.pipeline.source,
            partition=number,
        )
        for number in range(running.pipeline.partitions)
    }


def claimed_ids(running: RunningPipeline) -> set[str]:
    found = running.server.get(f"/pipelines/{running.name}/transactional-ids")["items"]
    return {one["transactional_id"] for one in found}


def wait_until_mapped(running: RunningPipeline) -> None:
    wait_for(
        lambda: (
            held_ids(running) == expected_ids(running) and claimed_ids(running) >= {*expected_ids(running).values()}
        ),
        60,
        lambda: f"an owner and an id of each partition: {held_ids(running)}; claimed {claimed_ids(running)}",
    )


def test_each_partition_has_its_own_id(running: RunningPipeline) -> None:
    wait_until_mapped(running)
    statuses = running.server.get(f"/runs/{running.run_id}/tasks")["items"]
    partitions = [partition for status in statuses for partition in status["last"]["partitions"]]
    assert {one["offsets_generation"] for one in partitions} == {-1}
    assert all(one["producer_epoch"] is not None for one in partitions)


def test_a_killed_worker_is_retried(running: RunningPipeline) -> None:
    before = running.tasks()[0]
    with measured(running, "Python worker, exactly_once"):
        os.kill(before.pid, signal.SIGKILL)
        running.wait_until_another_attempt_committed(before, 60)


def test_a_partition_that_is_added_is_mapped_and_read(running: RunningPipeline) -> None:
    running.pipeline.partitions = add_partition(running.pipeline.bootstrap_servers, running.pipeline.source)
    wait_until_mapped(running)
    running.assert_nothing_lost_nothing_double()


def test_a_partition_that_is_added_while_the_server_is_away_is_read_and_mapped_later(running: RunningPipeline) -> None:
    running.server.kill()
    running.pipeline.partitions = add_partition(running.pipeline.bootstrap_servers, running.pipeline.source)
    running.assert_nothing_lost_nothing_double()
    running.server.start()
    wait_until_mapped(running)


def test_workers_frozen_past_session_and_timeout_go_on(running: RunningPipeline) -> None:
    """One is frozen until the other one has its partitions; it wakes up as a zombie of each of them."""
    definition = running.pipeline.definition
    with measured(running, "worker frozen, exactly_once"), frozen([running.task_process(0)]):
        over_at = now() + (definition.transaction_timeout_ms + definition.session_timeout_ms) / 1000 + 3
        wait_for(lambda: now() >= over_at, 60, "session and transactions to time out")
    running.assert_nothing_lost_nothing_double()


def test_at_last_everything_drains_and_is_whole(running: RunningPipeline) -> None:
    running.feeder.stop()
    running.server.post(f"/runs/{running.run_id}/drain")
    run = running.server.wait_for_run(running.run_id, "stopped", 60)
    assert [one["outcome"]["kind"] for one in run["instances"]] == ["drained", "drained"]
    running.pipeline.assert_whole()
