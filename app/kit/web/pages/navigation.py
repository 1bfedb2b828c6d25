"""The navigation: four doors, and below the open one the places behind it.

Core's places stand here; products add theirs with their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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


def doors() -> list[tuple[Door, str]]:
    """Each door with the path of its first place."""
    return [(door, next(place.path for place in _PLACES if place.door is door)) for door in Door]


def door_of(path: str) -> Door | None:
    """The door to the page at this path; None for a page that is behind none, such as one that does not exist."""
    return next((place.door for place in _PLACES if place.has(path)), None)


def places_behind(door: Door | None) -> list[Place]:
    """The places with an entry, in the order of registration."""
    return [place for place in _PLACES if place.door is door and place.title is not None]
