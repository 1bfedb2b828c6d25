"""The marker of a query's writer: a group offset that is the number of a batch plus one, and no position of a consumer.

Source: workers/dataframes, Marker.java.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_METADATA = re.compile(r"fenceline/1 (\S+) (-?\d{1,18}) (\d{1,4}) (\S+) (\S+)(?: .*)?", re.ASCII | re.DOTALL)


class QueryMarker(NamedTuple):
    """batch: the newest committed one; -1 before the first. writers: their number in that batch."""

    batch: int
    writers: int


def marker_of(offset: int, metadata: str) -> QueryMarker | None:
    """Return the marker that a committed offset is; None for the position of a consumer."""
    found = _METADATA.fullmatch(metadata)
    if found is None or int(found[2]) + 1 != offset:
        return None
    return QueryMarker(batch=int(found[2]), writers=int(found[3]))
