"""The negative control: the switch in one step, which a user may force, beside a process that sleeps."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import msgspec
import psutil

from app.core.runs.mode import DEFINED_BY, Mode
from tests.fault_suite.freeze_points import Point, is_stopped
from tests.fault_suite.migration.stage import MigrationStage
from tests.fault_suite.run import Do
from tests.fault_suite.spark_stage.processes import send
from tests.support.waiting import wait_for

_FROZEN_S = 120.0
_ENDED_S = 240.0
_OVER = ("stopped", "failed")


class Switching:
    """A worker is frozen with records in hand, without a generation; all others end, and start again as v2."""

    def __init__(self, stage: MigrationStage, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._say = say

    def course(self, _: Do) -> None:
        """Raises AssertionError where it does not come to the waking."""
        stage, server = self._stage, self._stage.plane.server
        stage.points.ask(Point.BEFORE_FIRST_OUTPUT, by_itself=True)
        pid = stage.points.wait_until_frozen(Point.BEFORE_FIRST_OUTPUT, _FROZEN_S)
        task = next(one for one in stage.processes.tasks() if one.worker == pid)
        driver = stage.processes.driver_of(task)
        # Its machine is gone, as far as the server knows.
        send([task.daemon, task.executor.pid, *(driver or ())], signal.SIGKILL)
        self._say(f"worker {pid} is frozen; all others of its instance are killed")
        server.post(f"/runs/{stage.plane.run_id}/drain")
        self._wait_until_over()
        self._change_to_v2()
        asked = {"switch_at_once": True, "why": "a control: what the gates are for"}
        stage.plane.run_id = str(server.post(f"/pipelines/{stage.plane.name}/runs", asked)["id"])
        server.wait_for_run(stage.plane.run_id, "running", _ENDED_S)
        before = stage.facts.consumed()
        wait_for(lambda: self._all_beyond(before), _ENDED_S, lambda: f"commits beyond {before}")
        assert is_stopped(pid), f"worker {pid} was not frozen until now"
        self._say(f"every partition is read by a task of v2; worker {pid} wakes up")
        stage.points.thaw(pid)
        wait_for(lambda: not psutil.pid_exists(pid), _ENDED_S, f"the end of worker {pid}")

    def _wait_until_over(self) -> None:
        seen: dict[str, Any] = {}

        def is_over() -> bool:
            seen.update(self._stage.plane.server.get(f"/runs/{self._stage.plane.run_id}"))
            return seen["state"] in _OVER

        wait_for(is_over, _ENDED_S, lambda: f"the end of the run; it is {seen.get('state')}")

    def _change_to_v2(self) -> None:
        server, address = self._stage.plane.server, f"/pipelines/{self._stage.plane.name}"
        known = server.get(address)
        guarantee, fencing = DEFINED_BY[Mode.V2]
        definition = {**known["definition"], "processing_guarantee": guarantee, "offset_fencing": fencing}
        body = {"definition": msgspec.to_builtins(definition), "expected_revision": known["current_revision"]}
        server.put(address, body)

    def _all_beyond(self, before: dict[int, int]) -> bool:
        now = self._stage.facts.consumed()
        return all(now.get(partition, 0) > offset for partition, offset in before.items())
