"""What is shown of files: pages, what is chosen, which pipelines have any, and what keeps them from being whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.kit.errors import InvalidError, NotFoundError
from app.kit.page import encode_cursor
from app.products.files.reading import TopicMessage
from app.products.files.service import showing
from app.products.files.store.readings import FileReadingStore
from app.products.files.written_file import FileFilter
from tests.support.control_plane import ControlPlane
from tests.support.kept_files import NOTHING, flights, paths, take, totals
from tests.support.written_files import AT_MS, SINK, message, portion, reference


async def test_pages_follow_each_other_while_files_come(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(*(message(number) for number in range(7))))
    async with plane.uow() as uow:
        first = await showing.list_files(uow, "flights", NOTHING, after=None, limit=3)
    await take(plane, portion(message(8)))
    async with plane.uow() as uow:
        second = await showing.list_files(uow, "flights", NOTHING, after=first.next_cursor, limit=50)
    shown = [record.file.offset for page in (first, second) for record in page.items]
    assert shown == [6, 5, 4, 3, 2, 1, 0]
    assert len(await paths(plane, limit=3)) == 8


async def test_files_are_chosen_by_partition_and_time(plane: ControlPlane) -> None:
    await flights(plane)
    early = message(0)
    late = TopicMessage(1, AT_MS + 3_600_000, message(1, reference(1, user="otto")).value)
    await take(plane, portion(early, late))
    (otto,) = await paths(plane, FileFilter(partition={"user": "otto", "date": "2026-01-01"}))
    assert "otto" in otto
    assert await paths(plane, FileFilter(partition={"user": "otto", "date": "2026-01-02"})) == []
    middle = plane.now + timedelta(minutes=30)
    assert await paths(plane, FileFilter(since=middle)) == [otto]
    assert otto not in await paths(plane, FileFilter(until=middle))


async def test_cursor_of_another_list_is_refused(plane: ControlPlane) -> None:
    await flights(plane)
    for cursor in (encode_cursor("x", "1"), encode_cursor(plane.now.isoformat(), "x"), encode_cursor("1")):
        async with plane.uow() as uow:
            with pytest.raises(InvalidError):
                await showing.list_files(uow, "flights", NOTHING, after=cursor, limit=5)


async def test_only_pipelines_whose_current_revision_writes_files_are_watched(plane: ControlPlane) -> None:
    await flights(plane)
    await plane.pipeline("records", sink_topic="elsewhere")
    await plane.pipeline("former", files=SINK)
    await plane.revise("former", files=None)
    async with plane.uow() as uow:
        assert await uow.of(FileReadingStore).watched() == [("flights", "test", "out")]
        with pytest.raises(NotFoundError, match="has no file sink"):
            await showing.list_files(uow, "records", NOTHING, after=None, limit=5)
        with pytest.raises(NotFoundError, match="nobody"):
            await showing.list_files(uow, "nobody", NOTHING, after=None, limit=5)


async def test_what_a_pipeline_wrote_before_is_shown_when_it_writes_records(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0)))
    await plane.revise("flights", files=None)
    assert len(await paths(plane)) == 1


async def test_problem_keeps_its_time_until_it_is_over(plane: ControlPlane) -> None:
    await flights(plane)

    async def note(problem: str) -> None:
        async with plane.uow() as uow:
            await uow.of(FileReadingStore).note_problem(["flights", "deleted"], problem, now=plane.now)
            await uow.commit()

    await note("no broker answers")
    began = plane.now
    plane.pass_time(60)
    await note("still no broker answers")
    standing = (await totals(plane)).standing
    assert standing.watch is not None
    assert (standing.watch.problem_at, standing.watch.looked_at) == (began, None)
    assert "still no broker answers" in standing.sentence
    assert not standing.is_whole
    await take(plane, portion(message(0)))
    assert "still" in (await totals(plane)).standing.sentence, "that something was read does not end it"
    await note("")
    standing = (await totals(plane)).standing
    assert standing.watch is not None
    assert (standing.watch.problem, standing.watch.problem_at, standing.is_whole) == ("", None, True)
