"""A turn of the retention loop commits its removals."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from app.core.runs.loops.retention import Retention
from app.edges.db.database import Database
from tests.support.control_plane import ControlPlane, PlaneClock, task_heartbeat
from tests.support.run_samples import samples_of


async def test_a_turn_removes_for_good_and_says_what(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    plane = ControlPlane(database)
    run = await plane.running()
    for sequence in range(1, 4):
        await plane.beat(task_heartbeat(run.id, sequence=sequence))
        plane.pass_time(1)
    plane.pass_time(timedelta(hours=2).total_seconds())
    loop = Retention(unit_of_work=plane.uow, clock=PlaneClock(plane))
    with caplog.at_level(logging.INFO, logger="app.core.runs.loops.retention"):
        await loop.turn()
        await loop.turn()
    async with plane.uow() as uow:
        left = await samples_of(uow, run.id)
    assert len(left) == 1, "one of a minute stays"
    assert [record.message for record in caplog.records] == ["removed 2 from run_samples"]
