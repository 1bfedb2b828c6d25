"""`fenceline batches`, as a process of its own against an application on a socket."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.products import PARTS
from tests.support.control_plane import ControlPlane
from tests.support.live_application import LiveApplication, live_application
from tests.support.queries import QUERY, progress, report, running_query, send
from tests.support.serving import FENCELINE

pytestmark = pytest.mark.slow


@pytest.fixture
def live(database_url: str, tmp_path: Path) -> Generator[LiveApplication]:
    """An application with the pipeline `flights`, whose query has reported three batches, and `new`, never started."""
    database = Database(database_url, parts=PARTS)

    async def begin(wiring: Wiring) -> None:
        plane = ControlPlane(database, now=wiring.clock.now())
        run = await running_query(plane)
        batches = [progress(number, ended_at=plane.now - timedelta(seconds=2 - number)) for number in range(3)]
        await send(plane, report(run.id, *batches, sent_at_ms=round(plane.now.timestamp() * 1000)))
        await plane.pipeline("new", transform=QUERY)

    async def close(_: Wiring) -> None:
        await database.close()

    with live_application(database_url, tmp_path) as made:
        made.do(begin)
        yield made
        made.do(close)


def batches(live: LiveApplication, folder: Path, *arguments: str) -> str:
    ended = subprocess.run(
        [*FENCELINE, "batches", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "FENCELINE_SERVER_URL": live.url, "FENCELINE_TOKEN": live.token},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_batches_are_a_table_or_one_json_document(live: LiveApplication, tmp_path: Path) -> None:
    text = batches(live, tmp_path, "flights", "--limit", "2")
    rows = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert rows == ["running", "rows", "BATCH", "2", "1"], text
    found = json.loads(batches(live, tmp_path, "flights", "--limit", "2", "--json"))
    assert (found["query"]["state"], found["query"]["newest"]["batch"]) == ("running", 2)
    assert [batch["batch"] for batch in found["batches"]] == [2, 1]
    assert found["batches"][0]["parts_ms"]["addBatch"] == 600
    assert "Never started." in batches(live, tmp_path, "new")
    assert json.loads(batches(live, tmp_path, "new", "--json"))["batches"] == []
