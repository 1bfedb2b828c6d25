"""The stored samples of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from app.core.runs.tables.tasks import run_samples
from app.kit.db.unit_of_work import UnitOfWork


async def samples_of(uow: UnitOfWork, run_id: str) -> Sequence[sa.Row[Any]]:
    """Return the rows of a run, oldest first."""
    wanted = sa.select(run_samples).where(run_samples.c.run_id == run_id).order_by(run_samples.c.at)
    return (await uow.connection.execute(wanted)).all()
