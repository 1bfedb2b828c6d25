"""The reconciler's shell on a real database: rows before acts, nothing twice, and what it does when an act fails.

Spark is a recorder here; the same loop on real Spark is in tests/faults.
"""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from app.core.runs.instance import InstanceOutcome, InstanceState
from app.core.runs.loops.reconciler import Reconciler
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.run import RunState
from app.core.runs.service import runs
from app.edges.db.database import Database
from app.edges.kafka.admin import KafkaBrokers
from tests.core.runs.conftest import GONE, RecordingSpark, make_reconciler, settle, states
from tests.support.control_plane import ANNA, ControlPlane, driver_heartbeat

S = InstanceState
BROKERS = KafkaBrokers(environment={}, secrets_dir=None)


async def test_a_run_that_begins_under_its_eyes_is_submitted_at_once(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    await reconciler.turn()
    await plane.pipeline(instances=2)
    run = await plane.run()
    await reconciler.turn()
    assert [one.ordinal for one in spark.submitted] == [0, 1]
    assert spark.states_when_submitted == [S.SUBMITTING, S.SUBMITTING], "the row is committed before the act"
    specification = spark.submitted[0]
    assert specification.run_token
    assert specification.server_urls == ("http://127.0.0.1:8701",)
    instance = (await plane.get_run(run.id)).instances[0]
    assert (instance.host, instance.jvm_pid, instance.log_path) == ("w1", 100, "/log")
    await reconciler.turn()
    assert len(spark.submitted) == 2


async def test_after_a_start_it_observes_before_it_starts_anything(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    await plane.pipeline()
    await plane.run()
    plane.pass_time(1)
    await reconciler.turn()
    plane.pass_time(19)
    await reconciler.turn()
    assert spark.submitted == []
    plane.pass_time(2)
    await reconciler.turn()
    assert len(spark.submitted) == 1


async def test_after_a_restore_it_observes_again_also_what_is_new(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark, database: Database
) -> None:
    await settle(plane, reconciler)
    async with database.engine.begin() as connection:
        await connection.execute(sa.text("UPDATE database_identity SET marker = 'of the copy that was restored'"))
    await reconciler.turn()
    await plane.pipeline()
    await plane.run()
    await reconciler.turn()
    assert spark.submitted == []
    plane.pass_time(21)
    await reconciler.turn()
    assert len(spark.submitted) == 1


async def test_after_a_restore_it_reads_the_definitions_again(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark, database: Database
) -> None:
    """The restored copy may have another definition under the same revision, of a save that came later."""
    await plane.running()
    await reconciler.turn()
    async with database.engine.begin() as connection:
        await connection.execute(sa.text("UPDATE database_identity SET marker = 'of the copy that was restored'"))
        # Rows of revisions are never changed; a restore replaces them.
        await connection.execute(sa.text("ALTER TABLE revisions DISABLE TRIGGER USER"))
        change = "UPDATE revisions SET definition = jsonb_set(definition, '{sink_topic}', '\"other\"')"
        await connection.execute(sa.text(change))
        await connection.execute(sa.text("ALTER TABLE revisions ENABLE TRIGGER USER"))
    before = spark.observed[-1].sink_topic
    await reconciler.turn()
    assert (before != "other", spark.observed[-1].sink_topic) == (True, "other")


async def test_two_servers_at_once_submit_once(plane: ControlPlane, spark: RecordingSpark) -> None:
    pair = [make_reconciler(plane, spark) for _ in range(2)]
    for one in pair:
        await one.turn()
    await plane.pipeline(instances=3)
    await plane.run()
    await asyncio.gather(*(one.turn() for one in pair))
    assert sorted(one.ordinal for one in spark.submitted) == [0, 1, 2]


async def test_failed_submission_is_reported_and_tried_again_later(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    await reconciler.turn()
    await plane.pipeline()
    run = await plane.run()
    spark.refusal = "spark-submit could not be started: no Java"
    await reconciler.turn()
    instance = (await plane.get_run(run.id)).instances[0]
    assert (instance.state, instance.reason) == (S.FAILED, "spark-submit could not be started: no Java")
    spark.refusal = None
    await reconciler.turn()
    assert await states(plane, run.id) == [(2, S.PENDING)]
    await reconciler.turn()
    assert spark.submitted == []
    plane.pass_time(1.1)
    await reconciler.turn()
    assert [one.lease for one in spark.submitted] == [2]


async def test_a_run_whose_submissions_all_fail_is_retried_for_ever_and_crash_looping(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    await reconciler.turn()
    await plane.pipeline()
    run = await plane.run()
    spark.refusal = "no Java"
    for _ in range(40):
        await reconciler.turn()
        plane.pass_time(301)
    found = await plane.get_run(run.id)
    assert found.state is RunState.CRASH_LOOPING
    assert found.ended_at is None
    assert found.instances[0].lease > 10
    assert "no Java" in (found.instances[0].reason or "")
    spark.refusal = None
    while not spark.submitted:
        await reconciler.turn()
        plane.pass_time(301)
    lease = spark.submitted[-1].lease
    await plane.claim(run.id, 0, lease)
    await plane.move(run.id, 0, S.RUNNING, lease=lease)
    assert (await plane.get_run(run.id)).state is RunState.RUNNING
    await plane.drive(driver_heartbeat(run.id, lease=lease))
    plane.pass_time(61)
    await plane.drive(driver_heartbeat(run.id, lease=lease))
    await reconciler.turn()
    assert (await plane.get_run(run.id)).instances[0].failures == 0, "it was healthy for a while"


async def test_a_person_can_retry_a_crash_looping_run_at_once_and_only_once(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    await reconciler.turn()
    await plane.pipeline()
    run = await plane.run()
    spark.refusal = "no Java"
    for _ in range(40):
        await reconciler.turn()
        plane.pass_time(301)
    # One more refusal, and no time since.
    for is_over in (S.PENDING.__ne__, S.PENDING.__eq__):
        while not is_over((await states(plane, run.id))[0][1]):
            await reconciler.turn()
    spark.refusal = None
    await reconciler.turn()
    assert spark.submitted == [], "it waits for five minutes"
    async with plane.uow() as uow:
        await runs.restart_run(uow, BROKERS, run_id=run.id, rolling=True, by=ANNA, why="fixed", now=plane.now)
        await uow.commit()
    await reconciler.turn()
    assert len(spark.submitted) == 1
    lease = spark.submitted[-1].lease
    await plane.claim(run.id, 0, lease)
    await plane.move(run.id, 0, S.RUNNING, lease=lease)
    await reconciler.turn()
    assert await states(plane, run.id) == [(lease, S.RUNNING)], "not bounced: it began after the restart was asked for"
    assert (await plane.get_run(run.id)).state is RunState.RUNNING


async def test_tasks_that_crash_again_and_again_make_a_run_crash_looping(
    plane: ControlPlane, reconciler: Reconciler
) -> None:
    run = await plane.running()
    await plane.drive(driver_heartbeat(run.id, tasks_crashing=1))
    assert (await plane.get_run(run.id)).state is RunState.CRASH_LOOPING
    await plane.drive(driver_heartbeat(run.id))
    assert (await plane.get_run(run.id)).state is RunState.RUNNING


async def test_a_dead_driver_is_leased_again_under_the_next_number(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    run = await plane.running()
    await settle(plane, reconciler)
    spark.seen[0] = GONE
    await reconciler.turn()
    plane.pass_time(3)
    await reconciler.turn()
    assert await states(plane, run.id) == [(1, S.FAILED)]
    spark.seen.clear()
    await reconciler.turn()
    plane.pass_time(2)
    await reconciler.turn()
    assert await states(plane, run.id) == [(2, S.SUBMITTING)]


async def test_the_outcome_that_a_driver_left_behind_is_taken(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    run = await plane.running()
    await settle(plane, reconciler)
    async with plane.uow() as uow:
        await runs.drain_run(uow, run_id=run.id, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    outcome = InstanceOutcome(kind="drained", message="drained on SIGTERM", at=plane.now)
    spark.seen[0] = Observation(process=ProcessWord.GONE, master=MasterWord.FINISHED, outcome=outcome)
    plane.pass_time(5)
    await reconciler.turn()
    found = await plane.get_run(run.id)
    assert found.state is RunState.STOPPED
    assert found.instances[0].outcome is not None
    assert found.instances[0].outcome.message == "drained on SIGTERM"


async def test_a_bounce_moves_one_instance_at_a_time(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    run = await plane.running(instances=2)
    await settle(plane, reconciler)
    await plane.revise("flights", commit_interval_ms=200)
    async with plane.uow() as uow:
        await runs.roll_run(uow, BROKERS, run_id=run.id, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    for ordinal in (0, 1):
        for one in (0, 1):
            lease = 2 if one < ordinal else 1
            await plane.drive(driver_heartbeat(run.id, ordinal=one, lease=lease))
        await reconciler.turn()
        found = await plane.get_run(run.id)
        assert found.instances[ordinal].state is S.DRAINING
        assert found.instances[1 - ordinal].state is S.RUNNING, "the other goes on"
        await plane.move(run.id, ordinal, S.STOPPED)
        await reconciler.turn()
        await reconciler.turn()
        assert spark.submitted[-1].revision == 2
        await plane.claim(run.id, ordinal, 2)
        await plane.move(run.id, ordinal, S.RUNNING, lease=2)
    found = await plane.get_run(run.id)
    assert [(one.lease, one.revision) for one in found.instances] == [(2, 2), (2, 2)]
    assert found.state is RunState.RUNNING


async def test_a_clock_that_goes_back_keeps_no_run_from_being_started(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    await settle(plane, reconciler)
    plane.pass_time(-3600)
    await plane.pipeline()
    await plane.run()
    await reconciler.turn()
    assert [one.lease for one in spark.submitted] == [1]


async def test_bug_in_one_run_keeps_no_other_from_being_reconciled(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reconciler.turn()
    for name in ("a", "b", "c"):
        await plane.pipeline(name)
    bad, *_ = [await plane.run(name) for name in ("a", "b", "c")]
    begin = reconciler._reconcile  # pyright: ignore[reportPrivateUsage]  # one run is made to fail

    async def fail_the_first(run: runs.Run) -> None:
        if run.id == bad.id:
            raise PermissionError("a folder that nobody may touch")
        await begin(run)

    monkeypatch.setattr(reconciler, "_reconcile", fail_the_first)
    with pytest.raises(PermissionError):
        await reconciler.turn()
    assert sorted(one.pipeline for one in spark.submitted) == ["b", "c"]


async def test_one_run_that_cannot_be_reconciled_does_not_stop_the_others(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reconciler.turn()
    for name in ("a", "b"):
        await plane.pipeline(name)
    first = await plane.run("a")
    await plane.run("b")
    begin = reconciler._reconcile  # pyright: ignore[reportPrivateUsage]  # one run is made to fail

    async def fail_the_first(run: runs.Run) -> None:
        if run.id == first.id:
            raise runs.ConflictError("somebody was faster")
        await begin(run)

    monkeypatch.setattr(reconciler, "_reconcile", fail_the_first)
    await reconciler.turn()
    assert [one.pipeline for one in spark.submitted] == ["b"]


async def test_a_glance_needs_no_turn_while_every_instance_runs_as_before(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    assert not await reconciler.glance(), "nothing was read yet"
    run = await plane.running(instances=2)
    await reconciler.turn()
    before = len(spark.observed)
    assert await reconciler.glance()
    assert len(spark.observed) == before + 2
    spark.seen[1] = GONE
    assert not await reconciler.glance()
    await reconciler.turn()
    assert not await reconciler.glance(), "it has acted"
    assert (await plane.get_run(run.id)).instances[1].missing_since is not None


@pytest.mark.parametrize("state", [S.SUBMITTING, S.PAUSED, S.DRAINING, S.UNREACHABLE, S.FAILED])
async def test_a_glance_never_replaces_a_turn_while_an_instance_does_not_run(
    plane: ControlPlane, reconciler: Reconciler, state: InstanceState
) -> None:
    """Its next step may be due by time alone."""
    await plane.pipeline(instances=2)
    run = await plane.run()
    for ordinal in (0, 1):
        await plane.submit(run.id, ordinal)
    await plane.claim(run.id, 0)
    await plane.move(run.id, 0, S.RUNNING)
    if state is not S.SUBMITTING:
        await plane.claim(run.id, 1)
        await plane.move(run.id, 1, S.RUNNING)
        await plane.move(run.id, 1, state)
    await reconciler.turn()
    assert not await reconciler.glance()


async def test_a_glance_never_replaces_a_turn_before_the_first_lease(
    plane: ControlPlane, reconciler: Reconciler
) -> None:
    await settle(plane, reconciler)
    await plane.pipeline()
    await plane.run()
    async with plane.uow() as uow:
        await uow.connection.execute(sa.text("DELETE FROM instances"))
        await uow.commit()
    plane.pass_time(-60)
    await reconciler.turn()
    assert not await reconciler.glance()
