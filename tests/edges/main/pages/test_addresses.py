"""The addresses of pages: the place of a name must have no fixed words as well."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from fastapi.routing import APIRoute

from app.core.alerts import webhook
from app.core.pipelines import pipeline_checks
from app.edges.main import page_routes as pages


def words_below(noun: str) -> set[str]:
    """Return the words at the place of a name in the addresses of pages below `/noun/`."""
    modules = [
        importlib.import_module(f"{pages.__name__}.{found.name}") for found in pkgutil.iter_modules(pages.__path__)
    ]
    routes = [route for module in modules for route in getattr(getattr(module, "router", None), "routes", [])]
    paths = [route.path.strip("/").split("/") for route in routes if isinstance(route, APIRoute)]
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
    words = words_below(noun)
    assert "{name}" in words
    assert words - {"{name}"} <= reserved
