"""Kill -9 of every part of a running pipeline: nothing lost, nothing duplicated, and it continues.

One pipeline lives through all of it, one test after another; each test proves for itself that what was in the source
when its fault was over came out exactly once.
"""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.support.fault_figures import measured
from tests.support.running_pipeline import RunningPipeline, frozen, now, wait_until_dead
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_a_killed_python_worker_is_retried_under_the_same_lease(running: RunningPipeline) -> None:
    before = running.tasks()[0]
    with measured(running, "Python worker"):
        os.kill(before.pid, signal.SIGKILL)
        after = running.wait_until_another_attempt_committed(before, 40)
    assert after.lease == before.lease
    assert after.attempt == before.attempt + 1


def test_a_killed_executor_is_replaced_under_the_same_lease(running: RunningPipeline) -> None:
    before = running.tasks()[1]
    with measured(running, "executor"):
        os.kill(running.executor(1).pid, signal.SIGKILL)
        after = running.wait_until_another_attempt_committed(before, 60)
    assert after.lease == before.lease


def test_an_orphan_whose_executor_and_daemon_are_gone_does_no_harm(running: RunningPipeline) -> None:
    """The orphan is frozen while its successor starts, so that it really wakes up as a zombie with work in hand.

    It is frozen once its daemon is really gone, and before its executor is. The kernel wakes a process group that is
    orphaned while stopped and sends it SIGHUP, and an orphan that is left awake ends by itself.
    """
    before = running.tasks()[0]
    executor = running.executor(0)
    orphan = psutil.Process(before.pid)
    daemon = orphan.parent()
    assert daemon is not None
    assert daemon.ppid() == executor.pid
    with measured(running, "executor and daemon"):
        daemon.kill()
        wait_for(lambda: orphan.ppid() != daemon.pid, 5, lambda: f"another parent of the orphan than {daemon}")
        with frozen([orphan]):
            os.kill(executor.pid, signal.SIGKILL)
            running.wait_until_another_attempt_committed(before, 60)
            assert orphan.status() == psutil.STATUS_STOPPED
        wait_until_dead(orphan.pid)


def test_an_orphan_that_was_not_frozen_leaves_by_itself(running: RunningPipeline) -> None:
    before = running.tasks()[1]
    executor = running.executor(1)
    orphan = psutil.Process(before.pid)
    daemon = orphan.parent()
    assert daemon is not None
    with measured(running, "executor and daemon, orphan awake"):
        daemon.kill()
        os.kill(executor.pid, signal.SIGKILL)
        wait_until_dead(orphan.pid)
        running.wait_until_another_attempt_committed(before, 60)


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("which", ["jvm_pid", "python_pid"])
def test_a_killed_driver_is_leased_again(running: RunningPipeline, which: str) -> None:
    before = running.tasks()[0]
    instance = running.instance(0)
    with measured(running, f"driver ({'JVM' if which == 'jvm_pid' else 'Python'})"):
        os.kill(instance[which], signal.SIGKILL)
        after = running.wait_until_another_attempt_committed(before, 90)
    assert after.lease == before.lease + 1


def test_a_killed_master_that_comes_back_changes_nothing(running: RunningPipeline) -> None:
    leases, before = running.leases(), running.tasks()
    with measured(running, "Spark master"):
        running.cluster.master.kill()
        running.cluster.master.start()
        running.cluster.wait_until_ready()
        known = {app.id for app in running.cluster.status().activeapps}
        assert {running.instance(ordinal)["application_id"] for ordinal in (0, 1)} <= known
    assert running.leases() == leases
    assert {o: t.pid for o, t in running.tasks().items()} == {o: t.pid for o, t in before.items()}


def test_a_killed_server_adopts_running_instances_and_starts_nothing_twice(running: RunningPipeline) -> None:
    leases, before = running.leases(), running.tasks()
    with measured(running, "server"):
        running.server.kill()
        running.assert_nothing_lost_nothing_double()
        running.server.start()
        running.server.wait_for_run(running.run_id, "running", 30)

        def heard_again() -> bool:
            heard = running.tasks()
            return all(heard[ordinal].committed > before[ordinal].committed for ordinal in before)

        wait_for(heard_again, 20, lambda: f"heartbeats of the same tasks; before {before}, now {running.tasks()}")
    assert running.leases() == leases
    assert {o: t.pid for o, t in running.tasks().items()} == {o: t.pid for o, t in before.items()}


def test_a_driver_that_dies_while_the_server_is_away_is_leased_again_once(running: RunningPipeline) -> None:
    leases, before = running.leases(), running.tasks()[1]
    instance = running.instance(1)
    with measured(running, "server and driver"):
        running.server.kill()
        os.kill(instance["python_pid"], signal.SIGKILL)
        wait_until_dead(instance["jvm_pid"])
        running.server.start()
        running.wait_until_another_attempt_committed(before, 120)
    assert running.leases() == sorted([*leases, (1, before.lease + 1)])


def test_all_workers_frozen_past_the_transaction_timeout_go_on_by_themselves(running: RunningPipeline) -> None:
    leases, before = running.leases(), running.tasks()
    tasks = [running.task_process(ordinal) for ordinal in before]
    with measured(running, "all workers frozen"), frozen(tasks):
        timed_out_at = now() + running.pipeline.definition.transaction_timeout_ms / 1000 + 3
        wait_for(lambda: now() >= timed_out_at, 30, "the transactions to time out")
    after = running.tasks()
    assert all(task.state == "running" for task in after.values()), after
    assert running.leases() == leases


def test_at_last_everything_drains_and_is_whole(running: RunningPipeline) -> None:
    running.feeder.stop()
    running.server.post(f"/runs/{running.run_id}/drain")
    run = running.server.wait_for_run(running.run_id, "stopped", 60)
    assert [one["outcome"]["kind"] for one in run["instances"]] == ["drained", "drained"]
    running.pipeline.assert_whole()
