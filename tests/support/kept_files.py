"""Files kept as the loop keeps them, and what is known of them afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import event

from app.kit.db.unit_of_work import UnitOfWork
from app.products.files.reading import LogPlace, Portion, moved
from app.products.files.service import showing
from app.products.files.service.receiving import Kept, Step, keep, receive
from app.products.files.service.showing import FileTotals
from app.products.files.store.readings import FileReadingStore
from app.products.files.written_file import FileFilter
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane
from tests.support.written_files import SINK

PLACE = LogPlace(KAFKA_CLUSTER_ID, "out", "id-1")
NOTHING = FileFilter()


async def flights(plane: ControlPlane) -> None:
    await plane.pipeline("flights", files=SINK)


async def take(plane: ControlPlane, *portions: Portion, pipeline: str = "flights", place: LogPlace = PLACE) -> Kept:
    """Read these on from where the pipeline's topic is read, as the loop does."""
    async with plane.uow() as uow:
        steps = await steps_to(uow, plane, portions, pipeline=pipeline, place=place)
        kept = await keep_in(uow, plane, portions, steps, pipeline=pipeline)
        await uow.commit()
    return kept


async def steps_to(
    uow: UnitOfWork,
    plane: ControlPlane,
    portions: Sequence[Portion],
    *,
    pipeline: str = "flights",
    place: LogPlace = PLACE,
) -> list[Step]:
    known = {one.partition: one for one in (await uow.of(FileReadingStore).readings([pipeline])).get(pipeline, ())}
    return [
        (before, moved(before, one, place=place, now=plane.now))
        for one in portions
        for before in [known.get(one.partition)]
    ]


async def keep_in(
    uow: UnitOfWork,
    plane: ControlPlane,
    portions: Sequence[Portion],
    steps: Sequence[Step],
    *,
    pipeline: str = "flights",
) -> Kept:
    received = receive(pipeline, "out", portions, now=plane.now)
    return await keep(uow, pipeline=pipeline, steps=steps, received=received, now=plane.now)


async def totals(plane: ControlPlane) -> FileTotals:
    async with plane.uow() as uow:
        return await showing.totals_of(uow, "flights", limit=50, hours_since=None, now=plane.now)


async def paths(plane: ControlPlane, wanted: FileFilter = NOTHING, *, limit: int = 50) -> list[str]:
    """The items of all pages, one page after another."""
    found: list[str] = []
    after: str | None = None
    while True:
        async with plane.uow() as uow:
            page = await showing.list_files(uow, "flights", wanted, after=after, limit=limit)
        found += [record.file.path for record in page.items]
        after = page.next_cursor
        if after is None:
            return found


async def statements(plane: ControlPlane, work: Any) -> list[str]:
    asked: list[str] = []
    engine = plane.database.engine.sync_engine

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        asked.append(" ".join(statement.split()))

    event.listen(engine, "before_cursor_execute", note)
    try:
        await work
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return asked
