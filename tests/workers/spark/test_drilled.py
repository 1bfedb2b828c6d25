"""A task that a drill kills says so to its driver before it is gone."""

from __future__ import annotations

import os
import signal
from typing import cast

import pytest

from workers.spark import tasks
from workers.spark.driver_line import DriverLine
from workers.spark.messages import AttemptEnd, AttemptEnded


def test_the_driver_hears_of_it_before_the_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[object] = []

    class Line:
        def end(self, ended: AttemptEnded) -> None:
            happened.append((ended.task, ended.attempt, ended.end))

    def kill(pid: int, number: int) -> None:
        happened.append((pid, number))

    monkeypatch.setattr(tasks.os, "kill", kill)
    tasks.kill_itself(cast(DriverLine, Line()), task=1, attempt=4)
    assert happened == [(1, 4, AttemptEnd.DRILLED), (os.getpid(), signal.SIGKILL)]
