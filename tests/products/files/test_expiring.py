"""What time takes away of files, and what it leaves."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from app.core.pipelines.store import PipelineStore
from app.core.runs.service import retention
from app.kit.errors import ConflictError
from app.products.files.reading import TopicMessage
from app.products.files.service import showing
from app.products.files.store import retention as file_retention
from app.products.files.written_file import KEPT_FOR
from tests.support.control_plane import ControlPlane
from tests.support.kept_files import NOTHING, flights, paths, statements, take, totals
from tests.support.written_files import AT_MS, SINK, message, portion, reference


async def test_pipeline_takes_all_of_it_along(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0)))
    async with plane.uow() as uow:
        await uow.of(PipelineStore).remove("flights")
        await uow.commit()
    with pytest.raises(ConflictError, match="was deleted"):
        await take(plane, portion(message(1)))
    for table in ("written_files", "file_partitions", "file_hours", "file_checkpoints", "file_schemas"):
        assert await rows_of(plane, table) == 0


async def rows_of(plane: ControlPlane, table: str) -> int:
    async with plane.uow() as uow:
        (row,) = await uow.connection.rows(sa.text(f"SELECT count(*) AS rows FROM {table}"))  # noqa: S608 - of ours
    return row.rows


async def test_old_files_go_and_totals_stay(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0)))
    plane.now += KEPT_FOR + timedelta(minutes=1)
    await take(plane, portion(message(2, reference(2))))
    removed = await expire(plane)
    assert (removed["written_files"], removed["file_checkpoints"], removed["file_partitions"]) == (1, 0, 1)
    found = await totals(plane)
    assert found.total.files == 2
    assert len(await paths(plane)) == 1


async def test_of_a_pipeline_the_newest_are_kept(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [bounds._replace(most=3 if bounds.most else 0) for bounds in file_retention.BOUNDS]
    monkeypatch.setattr(file_retention, "BOUNDS", few)
    await flights(plane)
    await plane.pipeline("others", files=SINK, sink_topic="elsewhere")
    for number in range(8):
        late = TopicMessage(2 * number, AT_MS + number * 1_000, reference_bytes(number))
        await take(plane, portion(late))
    removed = await expire(plane)
    assert (removed["written_files"], removed["file_checkpoints"], removed["file_partitions"]) == (5, 5, 5)
    async with plane.uow() as uow:
        kept = await showing.list_files(uow, "flights", NOTHING, after=None, limit=50)
    assert [record.file.offset for record in kept.items] == [14, 12, 10]
    assert (await totals(plane)).total.files == 8
    assert set((await expire(plane)).values()) == {0}


def reference_bytes(number: int) -> bytes:
    value = message(0, reference(number, user=f"u{number}", checkpoint=number)).value
    assert value is not None
    return value


async def expire(plane: ControlPlane) -> dict[str, int]:
    async with plane.uow() as uow:
        removed = await retention.expire(uow, now=plane.now)
        await uow.commit()
    return {table: rows for table, rows in removed.items() if table.startswith(("file_", "written_"))}


async def test_retention_asks_one_question_where_no_pipeline_writes_files(plane: ControlPlane) -> None:
    await plane.pipeline("records")
    asked = await statements(plane, expire(plane))
    assert [one for one in asked if "file" in one] == ["SELECT EXISTS (SELECT FROM file_watches)"]
