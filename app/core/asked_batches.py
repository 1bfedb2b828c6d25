"""Records of a query's batches that other products ask for; app/products/dataframes/service/on_behalf.py has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from app.kit.db.unit_of_work import UnitOfWork


class BatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Batches first to last, each committed once by its record and the markers of the writers.

    wrong: the contradiction, if the records show one. unknown: the reason why they do not show it; both else empty.
    """

    first: int = 0
    last: int = -1
    input_rows: int = 0
    wrong: str = ""
    unknown: str = ""


class AskedBatches(Protocol):
    async def figures(
        self, uow: UnitOfWork, pipeline: str, *, since: datetime, markers: Mapping[int, int] | None
    ) -> BatchFigures:
        """Return the batches that were reported since then.

        markers: by writer, the number of its newest batch in the group's journal; None: the journal is not read.
        """
        ...
