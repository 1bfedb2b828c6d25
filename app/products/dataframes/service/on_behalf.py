"""The records of a query's batches, for drills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from app.core.batch_figures import BatchFigures
from app.kit.db.unit_of_work import UnitOfWork
from app.products.dataframes.batch import QueryBatch
from app.products.dataframes.store import QueryStore

_READ = 1_000


class RecordedBatches:
    """See app/core/asked_batches.py, AskedBatches."""

    async def figures(
        self, uow: UnitOfWork, pipeline: str, *, since: datetime, markers: Mapping[int, int] | None
    ) -> BatchFigures:
        newest = await uow.of(QueryStore).newest(pipeline, limit=_READ)
        return figures_of(newest, since=since, markers=markers)


def figures_of(batches: Sequence[QueryBatch], *, since: datetime, markers: Mapping[int, int] | None) -> BatchFigures:
    """Compare the records with each other and with the markers. A repeated batch has one record: its newest."""
    after = {one.batch: one for one in batches if one.received_at >= since}
    before = [one for one in batches if one.received_at < since]
    if not after:
        return BatchFigures(unknown="no batch ended in its time")
    if len({one.query_id for one in (*after.values(), *before[:1])}) > 1:
        return BatchFigures(wrong="the query began with a new checkpoint")
    last = max(after)
    first = 1 + max((one.batch for one in before), default=min(after) - 1)
    figures = BatchFigures(first=first, last=last, input_rows=sum(one.input_rows for one in after.values()))
    return _judged(figures, after, markers)


def _judged(figures: BatchFigures, after: Mapping[int, QueryBatch], markers: Mapping[int, int] | None) -> BatchFigures:
    first, last = figures.first, figures.last
    if last < first:
        return BatchFigures(wrong=f"batch {last} ended after batch {first - 1}")
    if not markers:
        return BatchFigures(unknown="the markers of its writers are not known: the group's journal is not read")
    lost = sorted(writer for writer, batch in markers.items() if batch < last)
    if lost:
        return BatchFigures(wrong=f"batch {last} ended, but the marker of writer {lost[0]} is batch {markers[lost[0]]}")
    missing = sorted(set(range(first, last + 1)) - set(after))
    if missing:
        return BatchFigures(unknown=f"{len(missing)} of its batches have no record, the first is batch {missing[0]}")
    return figures
