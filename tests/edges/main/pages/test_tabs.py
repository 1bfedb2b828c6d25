"""Each page of a pipeline has the pipeline's tabs, with its own tab marked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from app.core.pipelines.pipeline import FileSink
from app.edges.db.database import Database
from app.edges.main import page_routes
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.queries import QUERY
from tests.support.wiring import browser_of, settings_for_test, wired

_NAME = "/pipelines/{name}"
_TABS = re.compile(r'(?s)<nav class="places" aria-label="flights">.*?</nav>')
_NO_PAGE = {"stream", "diff"}
"""Streams are parts of their page; the comparison needs two revisions, and is asked below."""


def pages_of_a_pipeline() -> list[str]:
    """The addresses below a pipeline that need nothing but its name."""
    found: set[str] = set()
    for context in iter_route_contexts(page_routes.router.routes):
        path = context.path or ""
        if path != _NAME and not path.startswith(f"{_NAME}/"):
            continue
        route = context.original_route
        assert isinstance(route, APIRoute)
        below = path.removeprefix(_NAME)
        if "GET" in (route.methods or ()) and "{" not in below and below.rpartition("/")[2] not in _NO_PAGE:
            found.add(below)
    return sorted(found)


OF_FILES = {"sink_topic": "", "files": FileSink(root="file:///data/lake")}
OF_A_QUERY = {"transform": QUERY, "instances": 1, "group_id": ""}


@pytest.mark.parametrize(
    ("definition", "not_shown"),
    [
        ({}, {"/batches", "/files"}),
        (OF_FILES, {"/batches"}),
        (OF_A_QUERY, {"/files", "/imported-ids", "/reset-offsets"}),
    ],
    ids=["records", "files", "query"],
)
async def test_each_page_of_a_pipeline_has_its_tabs(
    database: Database, tmp_path: Path, definition: dict[str, Any], not_shown: set[str]
) -> None:
    below = [path for path in pages_of_a_pipeline() if path not in not_shown]
    assert len(below) > 10, below
    async with wired(database.url, settings_for_test(tmp_path)) as wiring:
        await ControlPlane(database, now=wiring.clock.now()).pipeline("flights", **definition)
        async with browser_of(wiring, Role.ADMINISTRATOR) as browser:
            without: list[str] = []
            for path in [*below, "/diff?from=1&to=1"]:
                answer = await browser.get(f"/pipelines/flights{path}")
                tabs = _TABS.search(answer.text)
                if answer.status_code != 200 or tabs is None or tabs[0].count("aria-current") != 1:
                    without.append(f"{path}: {answer.status_code}")
    assert without == []
