"""The navigation: four doors, and below the open one the places behind it, or the tabs of one pipeline or cluster.

Core's places stand here; products add theirs with their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, urlencode

from app.kit.access import Verb


class Door(StrEnum):
    """The values are the labels."""

    OVERVIEW = "Overview"
    PIPELINES = "Pipelines"
    CLUSTERS = "Clusters"
    ADMIN = "Admin"


@dataclass(frozen=True, kw_only=True)
class Place:
    """path: of its first page; the pages below it belong to the door, too. title None: only that, without an entry.

    verb: the permission without which it is not shown.
    """

    door: Door
    path: str
    title: str | None
    verb: Verb = Verb.VIEW

    def has(self, path: str) -> bool:
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


@dataclass(frozen=True, kw_only=True)
class Tab:
    """One page of a pipeline or cluster."""

    title: str
    address: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Tabs:
    """The pages about `subject`. They stand where the places of the door are otherwise."""

    subject: str
    tabs: tuple[Tab, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterPage:
    """A tab of a cluster: the page at `path`, in which `{name}` is the cluster; without it, it has `?cluster=`.

    also: other paths that belong to the tab. order: its place among the tabs.
    """

    title: str
    path: str
    order: int
    also: tuple[str, ...] = ()

    def address(self, cluster: str) -> str:
        if _NAME in self.path:
            return self.path.replace(_NAME, quote(cluster, safe=""))
        return f"{self.path}?{urlencode({'cluster': cluster})}"

    def has(self, route: str) -> bool:
        """Return whether a route, such as `/clusters/{name}/topics/{topic}`, belongs to the tab."""
        own = (self.path, *self.also)
        return route in own or any(route.startswith(f"{path}/") for path in own if path != _CLUSTER)


_NAME = "{name}"
_CLUSTER = "/clusters/{name}"
_CLUSTER_PAGES = [
    ClusterPage(title="Health", path=_CLUSTER, order=0),
    ClusterPage(title="Blocked readers", path="/stuck", order=10),
    ClusterPage(title="Groups", path="/groups", order=30),
    ClusterPage(title="Transactions", path="/transactions", order=40),
    ClusterPage(title="Owners", path="/mappings", order=50),
    ClusterPage(title="Fencing events", path="/fencing", order=60),
    ClusterPage(title="Settings", path="/clusters/{name}/settings", order=70),
]

_PLACES = [
    Place(door=Door.OVERVIEW, path="/", title=None),
    Place(door=Door.OVERVIEW, path="/search", title=None),
    Place(door=Door.PIPELINES, path="/pipelines", title="Pipelines"),
    Place(door=Door.PIPELINES, path="/new-pipeline", title=None),
    Place(door=Door.PIPELINES, path="/runs", title=None),
    Place(door=Door.CLUSTERS, path="/clusters", title="Clusters"),
    Place(door=Door.CLUSTERS, path="/stuck", title="Blocked readers"),
    Place(door=Door.CLUSTERS, path="/groups", title="Groups"),
    Place(door=Door.CLUSTERS, path="/transactions", title="Transactions"),
    Place(door=Door.CLUSTERS, path="/mappings", title="Owners"),
    Place(door=Door.CLUSTERS, path="/fencing", title="Fencing events"),
    Place(door=Door.ADMIN, path="/commands", title="Command log"),
    Place(door=Door.ADMIN, path="/tokens", title="Access", verb=Verb.VIEW_TOKENS),
]


def register_places(places: Iterable[Place]) -> None:
    """Add a product's places behind those that are there."""
    _PLACES.extend(place for place in places if place not in _PLACES)


def register_cluster_pages(pages: Iterable[ClusterPage]) -> None:
    """Add a product's tabs of a cluster."""
    _CLUSTER_PAGES.extend(page for page in pages if page not in _CLUSTER_PAGES)
    _CLUSTER_PAGES.sort(key=lambda page: page.order)


def cluster_tabs(route: str, path: Mapping[str, str], query: Mapping[str, str]) -> Tabs | None:
    """Return the tabs of the cluster that a page is about, by its route and parameters; None for other pages."""
    route = route.removesuffix("/stream")
    is_below = route == _CLUSTER or route.startswith(f"{_CLUSTER}/")
    cluster = path["name"] if is_below else query.get("cluster", "")
    if not cluster or not any(page.has(route) for page in _CLUSTER_PAGES):
        return None
    found = (
        Tab(title=page.title, address=page.address(cluster), is_current=page.has(route)) for page in _CLUSTER_PAGES
    )
    return Tabs(subject=cluster, tabs=tuple(found))


def doors() -> list[tuple[Door, str]]:
    """Each door with the path of its first place."""
    return [(door, next(place.path for place in _PLACES if place.door is door)) for door in Door]


def door_of(path: str) -> Door | None:
    """The door to the page at this path; None for a page that is behind none, such as one that does not exist."""
    return next((place.door for place in _PLACES if place.has(path)), None)


def places_behind(door: Door | None) -> list[Place]:
    """The places with an entry, in the order of registration."""
    return [place for place in _PLACES if place.door is door and place.title is not None]
