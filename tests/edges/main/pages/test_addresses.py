"""The addresses of pages: no pipeline, webhook or cluster may have the name of a page below its noun."""

from __future__ import annotations

import pytest
from fastapi.routing import iter_route_contexts

from app.core.alerts import webhook
from app.core.pipelines import pipeline_checks
from app.edges.main import page_routes


def segments_below(noun: str) -> set[str]:
    """The segments that stand at the place of a name in the addresses of pages below `/noun/`."""
    contexts = iter_route_contexts(page_routes.router.routes)
    paths = [(context.path or "").strip("/").split("/") for context in contexts]
    return {path[1] for path in paths if path[0] == noun and len(path) == 2}


@pytest.mark.parametrize(
    ("noun", "reserved"),
    [
        ("pipelines", pipeline_checks.RESERVED_NAMES),
        ("webhooks", webhook.RESERVED_NAMES),
        ("clusters", frozenset[str]()),
    ],
)
def test_no_name_hides_behind_a_page(noun: str, reserved: frozenset[str]) -> None:
    segments = segments_below(noun)
    assert "{name}" in segments
    assert segments - {"{name}"} <= reserved
