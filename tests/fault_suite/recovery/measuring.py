"""Does one loss after the other to a pipeline on Spark, and measures the time without records."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from tests.fault_suite.plan import Kind
from tests.fault_suite.reading import Follower
from tests.fault_suite.recovery.goals import Loss, Measured, Timeouts, bound_s
from tests.fault_suite.spark_stage.processes import Task, send
from tests.fault_suite.spark_stage.stage import SparkStage
from tests.fault_suite.standstill import Standstills
from tests.support import verifier
from tests.support.feeder import Feeder
from tests.support.results import git
from tests.support.waiting import wait_for

RECORDS_PER_S = 1_000
_CALM_S = 3.0
_BACK_S = 150.0
# By which a stand-still is found again: of one kind there is one at a time.
_KINDS = {
    Loss.DRAINED: Kind.DRIVER_TERMINATED,
    Loss.EXECUTOR_KILLED: Kind.EXECUTOR_KILLED,
    Loss.EXECUTOR_KILLED_SERVER_AWAY: Kind.EXECUTOR_KILLED,
    Loss.KILLED: Kind.INSTANCE_KILLED,
    Loss.KILLED_SERVER_AWAY: Kind.SERVER_KILLED,
}


class Measuring:
    """On a stage that is entered, of two instances of one task each."""

    def __init__(self, stage: SparkStage, timeouts: Timeouts, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._timeouts = timeouts
        self._say = say
        self._standstills = Standstills()

    def all_of(self, losses: Sequence[Loss], keep: Callable[[Measured], None]) -> list[Measured]:
        """One after the other, each from rest to rest; nothing may be lost or duplicated at the end.

        Args:
            keep: gets each as soon as it is measured, and again when the records have been counted.
        """
        pipeline = self._stage.pipeline
        feeder = Feeder(pipeline, records_per_s=RECORDS_PER_S)
        follower = Follower(pipeline.bootstrap_servers, pipeline.sink, self._standstills)
        follower.start()
        feeder.start()
        try:
            measured = [self._measure(loss, keep) for loss in losses]
        finally:
            feeder.stop()
        facts = self._stage.facts
        wait_for(facts.is_through, _BACK_S, lambda: f"{facts.source_ends()}; consumed are {facts.consumed()}")
        self._stage.drain()
        follower.finish(facts.sink_ends(), deadline_s=_BACK_S)
        pipeline.assert_whole()
        judged = [msgspec.structs.replace(one, judged=True) for one in measured]
        for one in judged:
            keep(one)
        return judged

    def _measure(self, loss: Loss, keep: Callable[[Measured], None]) -> Measured:
        self._wait_until_calm()
        task = self._stage.processes.tasks()[0]
        is_server_away = loss in (Loss.KILLED_SERVER_AWAY, Loss.EXECUTOR_KILLED_SERVER_AWAY)
        if is_server_away:
            self._stage.plane.server.kill()
        began = time.monotonic()
        # Two losses have one kind.
        self._standstills.by_kind.pop(_KINDS[loss], None)
        self._standstills.begun(_KINDS[loss], began)
        self._lose(loss, task)
        if is_server_away:
            # A killed instance is not restarted: the other one takes over, and only then the server comes back.
            self._wait_until_it_flows(began)
            self._stage.plane.server.start()
        self._wait_until_calm()
        protocol = self._stage.pipeline.definition.group_protocol
        measured = Measured(
            loss=loss,
            protocol=protocol,
            standstill_s=round(self._standstills.by_kind.get(_KINDS[loss], 0.0), 2),
            bound_s=bound_s(loss, protocol, self._timeouts),
            commit=git("rev-parse", "HEAD"),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            judged=False,
        )
        keep(measured)
        self._say(f"{measured.loss}: {measured.standstill_s:.1f} s, bound {measured.bound_s:.1f} s")
        return measured

    def _lose(self, loss: Loss, task: Task) -> None:
        if loss in (Loss.EXECUTOR_KILLED, Loss.EXECUTOR_KILLED_SERVER_AWAY):
            send([task.executor.pid], signal.SIGKILL)
            return
        driver = self._stage.processes.driver_of(task)
        assert driver is not None, f"no driver of {task}"
        if loss is Loss.DRAINED:
            send([driver.python], signal.SIGTERM)
        else:
            send([task.worker, task.daemon, task.executor.pid, *driver], signal.SIGKILL)

    def _wait_until_it_flows(self, since: float) -> None:
        """Every partition has had outputs after this moment."""
        for partition in range(self._stage.pipeline.partitions):
            self._standstills.expected(partition, since)
        wait_for(
            lambda: not self._standstills.silent_since(since),
            _BACK_S,
            lambda: f"outputs of every partition; none from {self._standstills.silent_since(since)}",
        )

    def _wait_until_calm(self) -> None:
        """Two tasks run, and their group has not been disturbed for a while."""
        calm_since = time.monotonic()
        seen: list[int] = []

        def is_calm() -> bool:
            nonlocal calm_since, seen
            now = time.monotonic()
            workers = sorted(task.worker for task in self._stage.processes.tasks())
            if workers != seen or len(workers) != 2 or self._standstills.silent_since(now - 1):
                calm_since, seen = now, workers
            return now - calm_since > _CALM_S and self._has_members()

        wait_for(is_calm, _BACK_S, lambda: f"two tasks and steady outputs; {self._stage.processes.tasks()}")

    def _has_members(self) -> bool:
        """Each of the tasks is in the group: one that still starts would disturb it later."""
        pipeline = self._stage.pipeline
        return verifier.group_members(pipeline.bootstrap_servers, pipeline.definition.group_id) == 2
