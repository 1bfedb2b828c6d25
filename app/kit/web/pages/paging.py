"""The pages of a long list: the cursor in their addresses, and the links between them."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol

from fastapi import Query

from app.kit.page import LONGEST_CURSOR

After = Annotated[str | None, Query(max_length=1000)]
AfterName = Annotated[str | None, Query(max_length=LONGEST_CURSOR, pattern=r"^[A-Za-z0-9_-]+$")]
"""The cursor of a list by names of Kafka, which may be long."""


class _Address(Protocol):
    def __call__(self, *, after: str | None) -> str: ...


class ListLinks(NamedTuple):
    """`parts.listed` shows them below the list. None: this is the first page, or the last."""

    first: str | None
    next: str | None

    @property
    def is_whole(self) -> bool:
        """True if there is no other page."""
        return self.first is None and self.next is None


def links_of(next_cursor: str | None, address: _Address, *, after: str | None = None) -> ListLinks:
    """Return the links of the page after `after`; a list of events needs no link to its first page, and omits it."""
    return ListLinks(
        first=address(after=None) if after else None, next=address(after=next_cursor) if next_cursor else None
    )
