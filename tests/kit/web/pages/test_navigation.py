"""Every page that a browser can open is behind one door, and each door shows its places."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import iter_route_contexts

from app.edges.main.page_routes import router
from app.kit.web.pages.navigation import Door, door_of, doors, places_behind


def paths() -> list[str]:
    contexts = iter_route_contexts(router.routes)
    found = {str(one.path) for one in contexts if "GET" in (one.methods or ())}
    return sorted(path for path in found if not path.endswith("/stream"))


@pytest.mark.parametrize("path", paths())
def test_each_page_is_behind_a_door(path: str) -> None:
    address = re.sub(r"\{[^}]*\}", "x", path)
    assert (door_of(address) is None) == path.startswith("/login")


def test_doors_lead_to_their_first_place() -> None:
    assert doors() == [
        (Door.OVERVIEW, "/"),
        (Door.PIPELINES, "/pipelines"),
        (Door.CLUSTERS, "/clusters"),
        (Door.ADMIN, "/commands"),
    ]
    for door, address in doors():
        assert door_of(address) is door


def test_places_of_products_are_behind_the_door_that_they_name() -> None:
    assert [place.title for place in places_behind(Door.PIPELINES)] == ["Pipelines", "Migrations"]
    assert [place.title for place in places_behind(Door.ADMIN)] == ["Command log", "Access", "Webhooks"]
    assert places_behind(Door.OVERVIEW) == []
    assert places_behind(None) == []


def test_a_longer_name_is_another_place() -> None:
    assert door_of("/groupsx") is None
    assert door_of("/") is Door.OVERVIEW
    assert door_of("/nothing-here") is None
