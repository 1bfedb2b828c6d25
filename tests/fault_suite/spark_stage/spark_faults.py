"""Faults of workers, executors, drivers, and of Spark's own daemons."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager

import psutil

from app.edges.embedded.spark import SparkCluster, SparkNode
from tests.fault_suite.freeze_points import FreezePoints, Point, is_stopped
from tests.fault_suite.plan import Fault, Kind, NotDoneError
from tests.fault_suite.proxied_cluster import Did, Wait
from tests.fault_suite.spark_stage.acts import Act
from tests.fault_suite.spark_stage.guest import Guest
from tests.fault_suite.spark_stage.processes import SparkProcesses, Task, chosen, hit, send
from tests.support.pipelines import TestPipeline
from tests.support.waiting import wait_for

_REACHED_S = 120.0
_LED_WITHIN_S = 20.0
"""Longer than the session of a member that is dead."""
_GONE_S = 10.0
# A member that stays gets there when another one joins.
_OF_WHO_STAYS = (Point.IN_REVOKE, Point.BETWEEN_REVOKE_AND_ASSIGN)


class SparkFaults:
    """Signals to the processes of one cluster's applications; none of it asks the server.

    stood: gets the point and the seconds of a worker's freeze; returns the outlasted timeouts.
    """

    def __init__(
        self,
        cluster: SparkCluster,
        processes: SparkProcesses,
        points: FreezePoints,
        *,
        pipeline: TestPipeline,
        stood: Callable[[Point | None, float], str],
    ) -> None:
        self._cluster = cluster
        self._processes = processes
        self._points = points
        self._pipeline = pipeline
        self._stood = stood

    @property
    def acts(self) -> Mapping[Kind, Act]:
        return {
            Kind.WORKER_KILLED: self._end_worker,
            Kind.WORKER_TERMINATED: self._end_worker,
            Kind.WORKER_FROZEN: self._freeze_worker,
            Kind.WORKER_REPLACED: self._replace_worker,
            Kind.WORKER_ORPHANED: self._orphan_worker,
            Kind.EXECUTOR_KILLED: self._end_executor,
            Kind.EXECUTOR_TERMINATED: self._end_executor,
            Kind.EXECUTOR_FROZEN: self._freeze_executor,
            Kind.DRIVER_KILLED: self._end_driver,
            Kind.DRIVER_TERMINATED: self._end_driver,
            Kind.INSTANCE_KILLED: self._kill_instance,
            Kind.SPARK_WORKER_KILLED: self._end_node,
            Kind.SPARK_WORKER_TERMINATED: self._end_node,
            Kind.SPARK_MASTER_KILLED: self._end_node,
            Kind.SPARK_MASTER_TERMINATED: self._end_node,
        }

    def settle(self) -> None:
        """No process is frozen, and every daemon of Spark's runs."""
        self._points.thaw_all()
        for node in (self._cluster.master, *self._cluster.workers):
            if not node.is_running:
                node.start()
        self._cluster.wait_until_ready()

    def _task(self, fault: Fault, *, least: int = 1) -> Task:
        return chosen(fault.which, self._processes.wait_for_tasks(least))

    def _end_worker(self, fault: Fault, did: Did, _wait: Wait) -> None:
        task = self._task(fault)
        if fault.kind is Kind.WORKER_KILLED:
            hit([task.worker], signal.SIGKILL)
        else:
            self._processes.tell_to_end(task)
        did(f"{task}: {fault.kind.removeprefix('worker ')}")

    def _freeze_worker(self, fault: Fault, did: Did, wait: Wait) -> None:
        with self._frozen(fault, did) as pid:
            since = time.monotonic()
            wait(fault.lasts_s)
            stood_s = time.monotonic() - since
            was_frozen = is_stopped(pid)
            self._points.thaw(pid)
        _require(was_frozen, f"worker {pid} was not frozen for {fault.lasts_s:g} s")
        did(self._stood(fault.point, stood_s))

    def _replace_worker(self, fault: Fault, did: Did, wait: Wait) -> None:
        """Spark starts the task again while its old attempt is frozen; then that one wakes up.

        Where no point is named it is stopped between the deaths of its daemon and of its executor. Earlier the kernel
        would wake it, later it would have left by itself.
        """
        if fault.point is None:
            task = self._task(fault)
            self._kill_daemon(task)
            hit([task.worker], signal.SIGSTOP)
            did(f"{task}: daemon killed, frozen")
            self._replace(task, fault, did, wait)
            return
        with self._frozen(fault, did, by_itself=True) as pid:
            self._replace(self._task_of(pid), fault, did, wait)

    def _replace(self, task: Task, fault: Fault, did: Did, wait: Wait) -> None:
        """Its worker is frozen."""
        since = time.monotonic()
        try:
            if fault.point is not None:
                self._kill_daemon(task)
            send([task.executor.pid], signal.SIGKILL)
            did(f"daemon {task.daemon} and executor {task.executor.pid}: SIGKILL")
            application = task.executor.application_id

            def again() -> list[Task]:
                return [one for one in self._processes.tasks() if one.executor.application_id == application]

            found = wait_for(again, _REACHED_S, lambda: f"another attempt in {application}")
            _require(is_stopped(task.worker), f"worker {task.worker} was not frozen until the task ran again")
            did(f"replaced by {found[0]}, while the old worker is frozen")
            wait(fault.lasts_s)
            stood_s = time.monotonic() - since
            if is_stopped(task.worker):
                did(self._stood(fault.point, stood_s))
        finally:
            self._points.thaw(task.worker)

    def _orphan_worker(self, fault: Fault, did: Did, _wait: Wait) -> None:
        task = self._task(fault)
        hit([task.daemon, task.executor.pid], signal.SIGKILL)
        did(f"{task}: daemon {task.daemon} and executor {task.executor.pid} killed")

    def _end_executor(self, fault: Fault, did: Did, _wait: Wait) -> None:
        task = self._task(fault)
        how = signal.SIGKILL if fault.kind is Kind.EXECUTOR_KILLED else signal.SIGTERM
        hit([task.executor.pid], how)
        did(f"executor {task.executor.pid} of {task}: {how.name}")

    def _freeze_executor(self, fault: Fault, did: Did, wait: Wait) -> None:
        task = self._task(fault)
        pids = [task.worker, task.daemon, task.executor.pid]
        hit(pids, signal.SIGSTOP)
        since = time.monotonic()
        did(f"{task}: {pids} frozen")
        wait(fault.lasts_s)
        stood_s = time.monotonic() - since
        was_frozen = is_stopped(task.worker)
        send(reversed(pids), signal.SIGCONT)
        _require(was_frozen, f"{task} was not frozen for {fault.lasts_s:g} s")
        did(self._stood(fault.point, stood_s))

    def _end_driver(self, fault: Fault, did: Did, _wait: Wait) -> None:
        driver = chosen(fault.which, self._processes.wait_for_working_drivers())
        if fault.kind is Kind.DRIVER_TERMINATED:
            hit([driver.python], signal.SIGTERM)
            did(f"{driver}: SIGTERM to Python")
            return
        # Each takes the other with it; which of them is first is drawn like whom it hits.
        pid = driver.jvm if int(fault.which * 100) % 2 else driver.python
        hit([pid], signal.SIGKILL)
        did(f"{driver}: SIGKILL to {pid}")

    def _kill_instance(self, fault: Fault, did: Did, _wait: Wait) -> None:
        """Kill all of it at once, so that no part can commit, leave the group, or report anything."""
        task = self._task(fault)
        driver = self._processes.driver_of(task)
        pids = [task.worker, task.daemon, task.executor.pid, *(driver or ())]
        hit(pids, signal.SIGKILL)
        did(f"{task}: {pids} killed")

    def _end_node(self, fault: Fault, did: Did, wait: Wait) -> None:
        is_master = fault.kind in (Kind.SPARK_MASTER_KILLED, Kind.SPARK_MASTER_TERMINATED)
        node: SparkNode = self._cluster.master if is_master else chosen(fault.which, self._cluster.workers)
        did(f"{node.process.name}, pid {node.pid}")
        if fault.kind in (Kind.SPARK_MASTER_KILLED, Kind.SPARK_WORKER_KILLED):
            node.kill()
        else:
            node.stop()
        wait(fault.lasts_s)
        node.start()
        self._cluster.wait_until_ready()

    @contextmanager
    def _frozen(self, fault: Fault, did: Did, *, by_itself: bool = False) -> Generator[int]:
        """A frozen worker, at the point if there is one. Its cause stays until the end."""
        point = fault.point
        if point is None:
            task = self._task(fault)
            hit([task.worker], signal.SIGSTOP)
            did(f"{task}: frozen")
            yield task.worker
            return
        with ExitStack() as stack:
            tasks = self._processes.wait_for_tasks(2 if point in _OF_WHO_STAYS else 1)
            self._points.ask(point, by_itself=by_itself)
            if point in _OF_WHO_STAYS:
                pid = self._lead_into_revoke(point, did, stack)
                did(f"pid {pid}: frozen {point}")
                yield pid
                return
            if point is Point.BETWEEN_INIT_AND_FIRST_FETCH:
                task = chosen(fault.which, tasks)
                self._processes.tell_to_end(task)
                did(f"{task}: SIGTERM")
            pid = self._points.wait_until_frozen(point, _REACHED_S)
            did(f"pid {pid}: frozen {point}")
            yield pid

    def _lead_into_revoke(self, point: Point, did: Did, stack: ExitStack) -> int:
        """A worker that is frozen there. The guest that has caused it stays until the stack is closed.

        It takes from the members that have most. Where those are dead and not removed yet, no living member releases
        anything: then it leaves, and comes again when they are gone.
        """
        until = time.monotonic() + _REACHED_S
        while True:
            with ExitStack() as visit:
                visit.enter_context(Guest(self._pipeline))
                did("a guest joins the group")
                try:
                    pid = self._points.wait_until_frozen(point, _LED_WITHIN_S)
                except AssertionError:
                    if time.monotonic() >= until:
                        raise
                    did("the guest leaves, since no member had to release anything")
                else:
                    stack.push(visit.pop_all())
                    return pid

    def _task_of(self, pid: int) -> Task:
        found = [task for task in self._processes.tasks() if task.worker == pid]
        if not found:
            # An orphan of an earlier fault has come to the point first.
            self._points.thaw(pid)
            raise NotDoneError(f"worker {pid} has no executor any more")
        return found[0]

    def _kill_daemon(self, task: Task) -> None:
        hit([task.daemon], signal.SIGKILL)

        def is_orphan() -> bool:
            try:
                return psutil.Process(task.worker).ppid() != task.daemon
            except psutil.NoSuchProcess:
                raise NotDoneError(f"worker {task.worker} has ended with its daemon") from None

        wait_for(is_orphan, _GONE_S, lambda: f"another parent of {task.worker}")


def _require(was_done: bool, otherwise: str) -> None:
    if not was_done:
        raise NotDoneError(otherwise)
