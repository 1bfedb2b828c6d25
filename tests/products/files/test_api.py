"""Files over HTTP: pages, filters, totals, checkpoints and schemas; and what a pipeline of records answers."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole
from tests.support.kept_files import take
from tests.support.written_files import AT_MS, SINK, message, portion, reference

BASE = "/api/v1/pipelines/flights/files"


@pytest.fixture
async def plane(api_wiring: Wiring) -> ControlPlane:
    return ControlPlane(
        cast(Database, SimpleNamespace(unit_of_work=api_wiring.unit_of_work)),
        now=datetime.now(UTC).replace(microsecond=0),
    )


@pytest.fixture
async def viewer(plane: ControlPlane, as_role: AsRole) -> httpx.AsyncClient:
    await plane.pipeline("flights", files=SINK)
    await plane.pipeline("records", sink_topic="elsewhere")
    return await as_role(Role.VIEWER)


async def test_pipeline_that_has_written_nothing_says_so(viewer: httpx.AsyncClient) -> None:
    assert (await viewer.get(BASE)).json() == {"items": [], "next_cursor": None}
    assert (await viewer.get(f"{BASE}/checkpoints")).json() == {"items": []}
    assert (await viewer.get(f"{BASE}/schemas")).json() == {"items": []}
    totals = (await viewer.get(f"{BASE}/totals")).json()
    assert totals["total"] == {"files": 0, "records": 0, "size_bytes": 0}
    assert (totals["standing"]["watch"], totals["standing"]["is_whole"], totals["standing"]["behind"]) == (
        None,
        False,
        None,
    )


async def test_files_come_in_pages_and_are_chosen(viewer: httpx.AsyncClient, plane: ControlPlane) -> None:
    await take(
        plane,
        portion(*(message(number, reference(number, user="anna" if number % 2 else "otto")) for number in range(5))),
    )
    first = (await viewer.get(BASE, params={"limit": 3})).json()
    second = (await viewer.get(BASE, params={"limit": 3, "after": first["next_cursor"]})).json()
    assert [file["offset"] for file in first["items"] + second["items"]] == [4, 3, 2, 1, 0]
    assert second["next_cursor"] is None
    chosen = (await viewer.get(BASE, params=[("partition", "user=anna"), ("partition", "date=2026-01-01")])).json()
    assert [file["partition"]["user"] for file in chosen["items"]] == ["anna", "anna"]
    later = datetime.fromtimestamp(AT_MS / 1000 + 60, UTC).isoformat()
    assert (await viewer.get(BASE, params={"since": later})).json()["items"] == []
    assert len((await viewer.get(BASE, params={"until": later})).json()["items"]) == 5


async def test_totals_checkpoints_and_schemas_say_how_they_came_about(
    viewer: httpx.AsyncClient, plane: ControlPlane
) -> None:
    other = {"type": "record", "name": "flight", "fields": [{"name": "id", "type": ["null", "string"]}]}
    sent = message(0, committed_ms=AT_MS + 30_920)
    later = message(2, reference(2, fingerprint="e" * 64, schema=other, opened_at_ms=AT_MS + 1, checkpoint=2))
    await take(plane, portion(sent))
    await take(plane, portion(later))
    totals = (await viewer.get(f"{BASE}/totals")).json()
    assert totals["total"] == {"files": 2, "records": 20, "size_bytes": 2_000}
    assert totals["standing"]["is_whole"]
    assert totals["standing"]["watch"]["looked_at"]
    assert totals["partitions"][0]["total"]["files"] == 2
    checkpoints = {one["checkpoint"]: one for one in (await viewer.get(f"{BASE}/checkpoints")).json()["items"]}
    assert checkpoints[1]["lengths"] == {"fill": 30_000, "upload": 900, "reference": 12, "commit": 8}
    assert checkpoints[2]["lengths"]["commit"] is None
    schemas = (await viewer.get(f"{BASE}/schemas")).json()["items"]
    assert {one["schema"]["fingerprint"] for one in schemas} == {"e" * 64, "f" * 64}
    assert schemas[-1]["changes"] is None
    assert schemas[0]["changes"][0]["field"] == "id"
    assert (await viewer.get(f"{BASE}/schemas", params={"limit": 1})).json()["items"][0]["changes"] is not None


async def test_pipeline_of_records_has_no_files(viewer: httpx.AsyncClient) -> None:
    for path in ("", "/totals", "/checkpoints", "/schemas"):
        refused = await viewer.get(f"/api/v1/pipelines/records/files{path}")
        assert refused.status_code == 404
        assert "has no file sink" in refused.json()["detail"]
        assert (await viewer.get(f"/api/v1/pipelines/nobody/files{path}")).status_code == 404


async def test_metrics_are_of_pipelines_that_write_files(viewer: httpx.AsyncClient, plane: ControlPlane) -> None:
    text = (await viewer.get("/metrics")).text
    assert 'fenceline_files_referenced_total{pipeline="flights"} 0.0' in text
    assert "fenceline_file_references_behind{" not in text, "not known is not nought"
    await take(plane, portion(message(0), message(1, b"x"), end_offset=9))
    text = (await viewer.get("/metrics")).text
    assert 'fenceline_file_records_total{pipeline="flights"} 10.0' in text
    assert 'fenceline_file_references_unreadable_total{pipeline="flights"} 1.0' in text
    assert 'fenceline_file_references_behind{pipeline="flights"} 6.0' in text
    assert 'pipeline="records"} 1' not in "".join(line for line in text.splitlines() if "file" in line)


async def test_file_that_is_named_twice_needs_somebody(viewer: httpx.AsyncClient, plane: ControlPlane) -> None:
    await take(plane, portion(message(0), message(1)))
    assert 'fenceline_pipeline_needs{pipeline="flights"} 0.0' in (await viewer.get("/metrics")).text
    await take(plane, portion(message(3, reference(0))))
    assert 'fenceline_pipeline_needs{pipeline="flights"} 1.0' in (await viewer.get("/metrics")).text


@pytest.mark.parametrize(
    "params",
    [
        {"partition": "user"},
        {"partition": "=anna"},
        {"partition": ["user=anna", "user=otto"]},
        {"since": "yesterday"},
        {"limit": "0"},
        {"after": "x"},
    ],
)
async def test_question_that_is_none_is_refused(viewer: httpx.AsyncClient, params: dict[str, str | list[str]]) -> None:
    assert (await viewer.get(BASE, params=params)).status_code == 422
