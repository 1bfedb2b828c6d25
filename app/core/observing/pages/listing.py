"""The list pages of a cluster's names: a form, and pages of the rows that match it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

from app.core.clusters import service as clusters
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.paging import links_of

Choices = Mapping[str, Sequence[tuple[str, str]]]


class _Found(Protocol):
    """The rows of one page."""

    @property
    def next_cursor(self) -> str | None: ...


class ListSelection:
    """The values of the page's form; a value that is not chosen is an empty string there.

    path: of the list. fields: beside `search`, in the order of the address. All of them select rows, except `sort` and
    `range`.
    """

    path: ClassVar[tuple[str, ...]]
    fields: ClassVar[tuple[str, ...]]

    def __init__(self, cluster: str, search: str, after: str | None) -> None:
        self.cluster = cluster
        self.search = search.strip()
        self.after = after

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, name) for name in ("search", *self.fields) if name not in ("sort", "range"))

    def url(self, cluster: str, *, after: str | None) -> str:
        """Return the address of another page of the same list."""
        chosen = {name: getattr(self, name) or None for name in ("search", *self.fields)}
        return screen.url_of(*self.path, cluster=cluster, **chosen, after=after)

    async def form(self, uow: UnitOfWork, choices: Choices) -> dict[str, Any]:
        """Return the context of the form. `cluster` is the chosen one or the first; empty without a cluster."""
        registered = [one.name for one in await clusters.list_clusters(uow)]
        return {
            "clusters": registered,
            "cluster": self.cluster or (registered[0] if registered else ""),
            "wanted": self,
            "choices": choices,
            "found": None,
        }

    def page(self, cluster: str, found: _Found, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the context of the rows, and of the links to other pages and to the list without filters."""
        return {
            "found": found,
            "rows": rows,
            "pages": links_of(found.next_cursor, partial(self.url, cluster), after=self.after),
            "all_url": screen.url_of(*self.path, cluster=cluster),
        }
