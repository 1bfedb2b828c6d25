"""A user's requests to a run, on real Spark under the real server: pause, change, drain, and those that must fail."""

from __future__ import annotations

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from app.core.pipelines.pipeline import Filter, SparkSettings, StepOperator, Steps
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import SparkCluster
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.running_pipeline import RunningPipeline
from tests.support.server_process import ServerProcess
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


def test_a_pause_leaves_nothing_open_and_ends_with_resume(running: RunningPipeline) -> None:
    members = verifier.group_members(running.pipeline.bootstrap_servers, running.pipeline.definition.group_id)
    running.server.post(f"/runs/{running.run_id}/pause")
    running.server.wait_for_run(running.run_id, "paused", 20)
    wait_for(
        lambda: not verifier.has_open_transaction(running.pipeline.bootstrap_servers, running.pipeline.sink),
        10,
        "no open transaction",
    )
    assert verifier.group_members(running.pipeline.bootstrap_servers, running.pipeline.definition.group_id) == members
    running.server.post(f"/runs/{running.run_id}/resume")
    running.server.wait_for_run(running.run_id, "running", 20)
    running.assert_nothing_lost_nothing_double()


def test_a_changed_revision_comes_in_one_instance_at_a_time(running: RunningPipeline) -> None:
    changed = replace(running.pipeline.definition, commit_interval_ms=200)
    running.server.put(f"/pipelines/{running.name}", {"definition": to_builtins(changed), "expected_revision": 1})
    away: list[set[int]] = []
    states: list[str] = []

    def is_through() -> bool:
        run = running.server.get(f"/runs/{running.run_id}")
        states.append(run["state"])
        away.append({one["ordinal"] for one in run["instances"] if one["state"] != "running"})
        return run["state"] == "running" and all(one["revision"] == 2 for one in run["instances"])

    wait_for(is_through, 240, lambda: f"both instances at revision 2; away {away[-1]}, states {set(states)}")
    assert "bouncing" in states
    assert max(len(one) for one in away) == 1, "never two at once"
    assert set().union(*away) == {0, 1}
    assert running.leases() == [(0, 1), (0, 2), (1, 1), (1, 2)]
    running.assert_nothing_lost_nothing_double()


def test_a_drain_leaves_everything_whole(running: RunningPipeline) -> None:
    """In the middle of the feed: what is committed has come out, once and in order, and nothing else has."""
    running.server.post(f"/runs/{running.run_id}/drain")
    run = running.server.wait_for_run(running.run_id, "stopped", 60)
    assert [one["outcome"]["kind"] for one in run["instances"]] == ["drained", "drained"]
    running.feeder.stop()
    pipeline = running.pipeline
    committed = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    assert {number for _, number in committed} == set(range(pipeline.partitions))
    # Its only writer is idempotent and uses no transactions: in each partition a record's offset is its number.
    processed = [
        verifier.make_id(number, sequence) for (_, number), end in committed.items() for sequence in range(end)
    ]
    assert set(processed) < set(running.feeder.fed()), "something was fed after the drain"
    found = pipeline.audit(processed)
    assert found.is_exact, str(found)
    assert not verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)


def test_too_few_slots_are_reported_and_a_kill_ends_it(
    server: ServerProcess, kafka: KafkaCluster, spark_cluster: SparkCluster
) -> None:
    pipeline = TestPipeline.create(
        kafka.bootstrap_servers,
        partitions=6,
        cluster=server.registered_cluster(kafka.bootstrap_servers),
        tasks_per_instance=6,
        spark=SparkSettings(master=spark_cluster.master_url),
    )
    name = unique_name("slots")
    server.create_pipeline(name, pipeline.definition)
    run_id = str(server.post(f"/pipelines/{name}/runs")["id"])
    seen: dict[str, object] = {}

    def is_said() -> bool:
        (instance,) = server.get(f"/runs/{run_id}")["instances"]
        seen.update({key: instance[key] for key in ("state", "executors", "tasks_running", "tasks_waiting")})
        return (instance["tasks_running"], instance["tasks_waiting"]) == (4, 2)

    wait_for(is_said, 120, lambda: f"4 tasks running and 2 waiting for a slot; last {seen}")
    server.post(f"/runs/{run_id}/kill")
    run = server.wait_for_run(run_id, "stopped", 60)
    assert run["instances"][0]["reason"] == "killed"


def test_a_record_that_the_policy_refuses_fails_the_run_and_is_named(
    server: ServerProcess, kafka: KafkaCluster, spark_cluster: SparkCluster
) -> None:
    pipeline = TestPipeline.create(
        kafka.bootstrap_servers,
        partitions=1,
        cluster=server.registered_cluster(kafka.bootstrap_servers),
        transform=Steps(steps=(Filter(field="delay", operator=StepOperator.GE, value=15),)),
        spark=SparkSettings(master=spark_cluster.master_url),
    )
    pipeline.feed_value(b"not JSON")
    name = unique_name("refused")
    server.create_pipeline(name, pipeline.definition)
    run_id = str(server.post(f"/pipelines/{name}/runs")["id"])
    run = server.wait_for_run(run_id, "failed", 120)
    assert pipeline.source in run["end_reason"]
    assert [one["lease"] for one in run["instances"]] == [1], "it would only fail again"
