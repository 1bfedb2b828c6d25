"""A task whose checkpoints all fail is shown as not progressing: over REST, in metrics, and among the issues."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import msgspec

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.fixtures import AsRole


async def test_it_is_in_the_report_of_the_task_in_the_metrics_and_an_issue(api_wiring: Wiring, as_role: AsRole) -> None:
    database = cast(Database, SimpleNamespace(unit_of_work=api_wiring.unit_of_work))
    plane = ControlPlane(database, now=datetime.now(UTC).replace(microsecond=0))
    run, viewer = await plane.running(), await as_role(Role.VIEWER)
    for sequence, still_ms in ((10, 31_000), (11, None)):
        sent = task_heartbeat(run.id, sequence=sequence)
        await plane.beat(msgspec.structs.replace(sent, not_progressing_ms=still_ms, last_error="broker 1 is slow"))
        tasks = (await viewer.get(f"/api/v1/runs/{run.id}/tasks")).json()["items"]
        assert [one["last"]["not_progressing_ms"] for one in tasks] == [still_ms]
        text = (await viewer.get("/metrics")).text
        seconds = (still_ms or 0) / 1000
        assert f'fenceline_pipeline_not_progressing_seconds{{pipeline="flights"}} {seconds}' in text
        assert f'fenceline_pipeline_needs{{pipeline="flights"}} {float(still_ms is not None)}' in text
