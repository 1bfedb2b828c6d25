"""Records of a query's batches that other products ask for; app/products/dataframes/service/on_behalf.py has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from app.core.batch_figures import BatchFigures
from app.kit.db.unit_of_work import UnitOfWork


class AskedBatches(Protocol):
    async def figures(
        self, uow: UnitOfWork, pipeline: str, *, since: datetime, markers: Mapping[int, int] | None
    ) -> BatchFigures:
        """Return the batches that were reported since then.

        markers: by writer, the number of its newest batch in the group's journal; None: the journal is not read.
        """
        ...
