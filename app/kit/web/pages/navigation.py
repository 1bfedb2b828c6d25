"""The places in the navigation that products add to those of `templates/base.html`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from app.kit.access import Verb


@dataclass(frozen=True, kw_only=True)
class Place:
    """after: the path of the place that stands before it. verb: the permission without which it is not shown."""

    after: Literal["/mappings", "/commands"]
    path: str
    title: str
    verb: Verb = Verb.VIEW


_PLACES: list[Place] = []


def register_places(places: Iterable[Place]) -> None:
    _PLACES.extend(place for place in places if place not in _PLACES)


def places_after(path: str) -> list[Place]:
    """Those of products after this place, in the order of registration."""
    return [place for place in _PLACES if place.after == path]
