"""The offset log over REST: reported by tasks on their own listener, checked by viewers."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole
from tests.support.offset_tellers import tasks_of

BASE = "/api/v1/pipelines/flights/offset-log"


@pytest.fixture
async def plane(api_wiring: Wiring) -> ControlPlane:
    return ControlPlane(
        cast(Database, SimpleNamespace(unit_of_work=api_wiring.unit_of_work)),
        now=datetime.now(UTC).replace(microsecond=0),
    )


async def test_gap_is_shown_with_both_sides(api_wiring: Wiring, plane: ControlPlane, as_role: AsRole) -> None:
    viewer = await as_role(Role.VIEWER)
    tasks = await tasks_of(plane, api_wiring.observations)
    assert (await viewer.get(BASE)).json() == {"last": None, "findings": []}
    assert (await viewer.get(f"{BASE}/check")).json()["standing"] is None
    await tasks.handed_over(began=15)
    found = (await viewer.get(f"{BASE}/check")).json()
    assert found["standing"] == "contradicted"
    (finding,) = found["partitions"][0]["findings"]
    assert (finding["kind"], finding["start"], finding["end"]) == ("gap", 10, 15)
    assert {(side["task"], side["event"]["type"]) for side in finding["sides"]} == {
        (0, "checkpoint"),
        (1, "checkpoint"),
        (1, "positioned"),
    }
    await tasks.check()
    known = (await viewer.get(BASE)).json()
    assert known["last"]["standing"] == "contradicted"
    assert known["findings"][0]["finding"] == finding
    metrics = (await viewer.get("/metrics")).text
    assert 'fenceline_offset_contradictions{pipeline="flights"} 1.0' in metrics


async def test_since_limits_the_range_and_must_be_a_time(
    plane: ControlPlane, as_role: AsRole, api_wiring: Wiring
) -> None:
    viewer = await as_role(Role.VIEWER)
    tasks = await tasks_of(plane, api_wiring.observations)
    await tasks.handed_over(began=10)
    later = plane.pass_time(60).isoformat()
    assert (await viewer.get(f"{BASE}/check", params={"since": later})).json()["standing"] is None
    assert (await viewer.get(f"{BASE}/check", params={"since": "yesterday"})).status_code == 422
    assert (await viewer.get("/api/v1/pipelines/nobody/offset-log")).status_code == 404
    assert (await viewer.get("/api/v1/pipelines/nobody/offset-log/check")).status_code == 404
