"""Every page that a browser can open is behind one door, and each door shows its places."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import iter_route_contexts

from app.core.pipelines.pages.tabs import links_within, pipeline_tabs
from app.edges.main.page_routes import router
from app.kit.web.pages.navigation import Door, cluster_tabs, door_of, doors, places_behind
from tests.support.page_samples import DEFINITION


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


@pytest.mark.parametrize(
    ("route", "path", "query", "current"),
    [
        ("/clusters/{name}", {"name": "pro d"}, {}, "Health"),
        ("/clusters/{name}/settings/stream", {"name": "pro d"}, {}, "Settings"),
        ("/clusters/{name}/topics/{topic}/records", {"name": "pro d"}, {}, "Topics"),
        ("/clusters/{name}/log/{topic}/{partition}", {"name": "pro d"}, {}, "Topics"),
        ("/groups/group", {}, {"cluster": "pro d"}, "Groups"),
        ("/stuck", {}, {"cluster": "pro d"}, "Blocked readers"),
    ],
)
def test_page_about_one_cluster_has_its_tabs(
    route: str, path: dict[str, str], query: dict[str, str], current: str
) -> None:
    tabs = cluster_tabs(route, path, query)
    assert tabs is not None
    assert (tabs.subject, [tab.title for tab in tabs.tabs if tab.is_current]) == ("pro d", [current])
    addresses = {tab.title: tab.address for tab in tabs.tabs}
    assert list(addresses) == [
        *("Health", "Blocked readers", "Topics", "Groups", "Transactions", "Owners", "Fencing events", "Settings"),
    ]
    assert addresses["Health"] == "/clusters/pro%20d"
    assert addresses["Topics"] == "/clusters/pro%20d/topics"
    assert addresses["Owners"] == "/mappings?cluster=pro+d"


@pytest.mark.parametrize(
    ("route", "path", "query"),
    [
        ("/groups", {}, {}),
        ("/clusters", {}, {}),
        ("/commands", {}, {"cluster": "prod"}),
        ("/fencing", {}, {"cluster": ""}),
    ],
)
def test_page_about_no_cluster_has_none(route: str, path: dict[str, str], query: dict[str, str]) -> None:
    assert cluster_tabs(route, path, query) is None


@pytest.mark.parametrize(
    ("here", "current"),
    [("", "Status"), ("runs", "Runs"), ("reset-offsets", "Offsets"), ("migrations", "More"), ("audits", "Audits")],
)
def test_page_of_a_pipeline_has_its_tabs(here: str, current: str) -> None:
    tabs = pipeline_tabs("a/b", DEFINITION, here)
    assert [tab.title for tab in tabs.tabs] == [
        *("Status", "Runs", "Events", "Definition", "Offsets", "Audits", "More"),
    ]
    assert [tab.title for tab in tabs.tabs if tab.is_current] == [current]
    assert tabs.tabs[0].address == "/pipelines/a%2Fb"
    assert tabs.tabs[1].address == "/pipelines/a%2Fb/runs"


def test_pages_that_are_no_tab_are_linked_on_one() -> None:
    """Those without a link are reached from a button of their tab's page."""
    linked = {link.path for tab in ("offsets", "more") for link in links_within(DEFINITION, tab)}
    assert linked == {"reset-offsets", "migrations", "imported-ids"}
    own = {path.removeprefix("/pipelines/{name}/") for path in paths() if path.startswith("/pipelines/{name}/")}
    tabs = {"runs", "events", "definition", "offsets", "audits", "files", "batches", "more"}
    assert own - tabs - linked == {"checkpoint", "diff", "drills", "edit", "audits/compare", "migrations/plan"}


def test_a_longer_name_is_another_place() -> None:
    assert door_of("/groupsx") is None
    assert door_of("/") is Door.OVERVIEW
    assert door_of("/nothing-here") is None
