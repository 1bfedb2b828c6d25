"""A database that dies or freezes under a live run: the data goes on, the server says what is wrong and comes back.

The Postgres is this module's own. One pipeline lives through all of it; the last test drains it and finds it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

import pytest

from app.edges.embedded.postgres import EmbeddedPostgres
from tests.support import verifier
from tests.support.fault_figures import measured
from tests.support.running_pipeline import RunningPipeline, now
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.slow]

LOST_AFTER_S = 8
LONG_S = 20
"""More than the 4 s after which an instance is unreachable, and the 8 s after that until it could be called lost."""


@pytest.fixture(scope="module")
def postgres() -> Generator[EmbeddedPostgres]:
    with EmbeddedPostgres.start(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def postgres_server_url(postgres: EmbeddedPostgres) -> str:
    return postgres.url


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    return {"FENCELINE_LOST_AFTER_S": str(LOST_AFTER_S)}


def stay_away(
    running: RunningPipeline, *, fault: str, away_s: float, begin: Callable[[], None], end: Callable[[], None]
) -> None:
    """Take the database away for `away_s`, and see that data, server and pages are what they should be."""
    leases, before = running.leases(), running.tasks()
    began = now()
    with measured(running, fault):
        begin()
        try:
            if away_s >= LONG_S:
                expect_a_clear_refusal(running)
            wait_for(lambda: now() >= began + away_s, away_s + 5, f"{away_s} s without a database")
            running.assert_nothing_lost_nothing_double()
        finally:
            end()
        expect_the_truth(running, {ordinal: task.committed for ordinal, task in before.items()})
    if away_s >= LONG_S:
        assert running.longest_gap_s(since=began) < away_s / 2, "the data waits for no database"
    assert running.leases() == leases, "no instance was called lost, none was started twice"
    assert {o: t.pid for o, t in running.tasks().items()} == {o: t.pid for o, t in before.items()}


def expect_a_clear_refusal(running: RunningPipeline) -> None:
    """Requests are refused in time, in words; the process itself is well."""
    server = running.server
    refused = server.ask(f"/api/v1/runs/{running.run_id}")
    assert refused.status_code == 503, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    assert "Postgres at 127.0.0.1:" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    not_ready = server.ask("/readyz")
    assert not_ready.status_code == 503
    assert "postgres" in {problem["field"] for problem in not_ready.json()["problems"]}
    assert server.ask("/healthz").status_code == 200


def expect_the_truth(running: RunningPipeline, committed_before: Mapping[int, int]) -> None:
    """By itself: the run is RUNNING without a complaint, in REST and on its pages, with what was done meanwhile."""
    running.server.wait_until_ready(60)
    running.server.wait_for_run(running.run_id, "running", 30)
    ends = verifier.end_offsets(running.pipeline.bootstrap_servers, running.pipeline.source, verifier.READ_COMMITTED)
    shown: dict[int, int] = {}

    def is_true() -> bool:
        statuses = running.server.get(f"/runs/{running.run_id}/tasks")["items"]
        shown.clear()
        shown.update({p["partition"]: p["committed"] or 0 for one in statuses for p in one["last"]["partitions"]})
        caught_up = all(shown.get(partition, 0) >= end for partition, end in ends.items())
        return caught_up and all(t.committed > committed_before[t.ordinal] for t in running.tasks().values())

    wait_for(is_true, 30, lambda: f"heartbeats with all that was done; the source was at {ends}, shown is {shown}")

    def is_without_complaint() -> bool:
        run = running.server.get(f"/runs/{running.run_id}")
        return all(one["state"] == "running" and one["reason"] is None for one in run["instances"])

    wait_for(is_without_complaint, 20, lambda: f"no complaint: {running.server.get(f'/runs/{running.run_id}')}")
    page = running.server.look(f"/runs/{running.run_id}")
    assert "running" in page
    assert "no heartbeat" not in page


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("away_s", [2, LONG_S])
def test_a_killed_postgres_stops_no_data(running: RunningPipeline, postgres: EmbeddedPostgres, away_s: float) -> None:
    stay_away(
        running, fault=f"Postgres killed, {away_s} s", away_s=away_s, begin=postgres.kill, end=postgres.start_again
    )


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("away_s", [3, LONG_S])
def test_a_frozen_postgres_stops_no_data(running: RunningPipeline, postgres: EmbeddedPostgres, away_s: float) -> None:
    stay_away(running, fault=f"Postgres frozen, {away_s} s", away_s=away_s, begin=postgres.pause, end=postgres.resume)


def test_events_of_the_time_are_reported_later(running: RunningPipeline, postgres: EmbeddedPostgres) -> None:
    """A worker dies while it cannot be recorded: its next attempt, and the fencing, are known afterwards."""
    before = running.tasks()[0]
    task = running.task_process(0)
    with measured(running, "Postgres killed, then a Python worker"):
        postgres.kill()
        try:
            task.kill()
            running.assert_nothing_lost_nothing_double()
        finally:
            postgres.start_again()
        after = running.wait_until_another_attempt_committed(before, 60)
    assert (after.lease, after.attempt) == (before.lease, before.attempt + 1)
    events = running.server.get(f"/runs/{running.run_id}/events?limit=200")["items"]
    assert [e for e in events if (e["ordinal"], e["attempt"], e["kind"]) == (0, after.attempt, "assigned")], events


def test_at_last_everything_drains_and_is_whole(running: RunningPipeline) -> None:
    running.feeder.stop()
    running.server.post(f"/runs/{running.run_id}/drain")
    run = running.server.wait_for_run(running.run_id, "stopped", 60)
    assert [one["outcome"]["kind"] for one in run["instances"]] == ["drained", "drained"]
    running.pipeline.assert_whole()
