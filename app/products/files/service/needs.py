"""The issues of pipelines with repeated references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.needs import Need
from app.kit.db.unit_of_work import UnitOfWork
from app.products.files.needs import repeated_file_need
from app.products.files.reading import MARKED_FOR
from app.products.files.store.readings import FileReadingStore


async def repeated_file_needs(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Mapping[str, Sequence[Need]]:
    """Return an issue for each pipeline with a repeated reference of the last days.

    It sends no statement if no pipeline writes files.
    """
    names = [pipeline.name for pipeline in pipelines if pipeline.definition.files is not None]
    if not names:
        return {}
    return {
        name: (repeated_file_need(name, watch.repeated),)
        for name, watch in (await uow.of(FileReadingStore).watches(names)).items()
        if watch.repeated and watch.repeated_at is not None and now - watch.repeated_at < MARKED_FOR
    }
