"""The report of a query's batches to the product that requested it."""

from __future__ import annotations

import msgspec


class BatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Batches first to last, each committed once by its record and the markers of the writers.

    wrong: the contradiction, if the records show one. unknown: the reason why they do not show it; both else empty.
    """

    first: int = 0
    last: int = -1
    input_rows: int = 0
    wrong: str = ""
    unknown: str = ""
