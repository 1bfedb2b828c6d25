"""Batches in a real database: one row each, newest first, kept for their time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.pipelines.store import PipelineStore
from app.core.runs.service import retention
from app.kit.errors import InvalidError
from app.kit.page import encode_cursor
from app.products.dataframes import store as query_store
from app.products.dataframes.batch import KEPT_FOR, QueryBatch
from app.products.dataframes.service import showing
from app.products.dataframes.store import QueryStore
from app.products.dataframes.wire import QueryState
from tests.support.control_plane import ControlPlane
from tests.support.queries import progress, report, running_query, send


async def batches(plane: ControlPlane, name: str = "flights") -> list[QueryBatch]:
    async with plane.uow() as uow:
        return await uow.of(QueryStore).newest(name, limit=500)


async def test_repeated_batch_replaces_its_row_and_keeps_its_place(plane: ControlPlane) -> None:
    run = await running_query(plane)
    await send(plane, report(run.id, progress(0), progress(1), progress(2)))
    await send(plane, report(run.id, progress(1, input_rows=77)))
    found = await batches(plane)
    assert [(one.batch, one.input_rows) for one in found] == [(2, 1_000), (1, 77), (0, 1_000)]


async def test_new_checkpoint_counts_from_zero_beside_the_earlier_one(plane: ControlPlane) -> None:
    run = await running_query(plane)
    await send(plane, report(run.id, progress(0), progress(1)))
    await send(plane, report(run.id, progress(0), query_id="another"))
    assert [(one.batch, one.query_id == "another") for one in await batches(plane)] == [
        (0, True),
        (1, False),
        (0, False),
    ]
    async with plane.uow() as uow:
        summary = await showing.query_of(uow, "flights", now=plane.now)
    assert summary.newest is not None
    assert summary.newest.query_id == "another"
    assert summary.late_in_batches == 1


async def test_list_is_read_by_pages(plane: ControlPlane) -> None:
    run = await running_query(plane)
    await send(plane, report(run.id, *(progress(number) for number in range(5))))
    seen: list[int] = []
    after = None
    async with plane.uow() as uow:
        while True:
            page = await showing.list_batches(uow, "flights", after=after, limit=2)
            seen += [one.batch for one in page.items]
            after = page.next_cursor
            if after is None:
                break
        assert seen == [4, 3, 2, 1, 0]
        for foreign in ("x", encode_cursor("a"), encode_cursor("1", "2"), encode_cursor("9" * 40)):
            with pytest.raises(InvalidError):
                await showing.list_batches(uow, "flights", after=foreign, limit=2)


async def test_state_has_the_time_of_its_first_report(plane: ControlPlane) -> None:
    run = await running_query(plane)
    began = plane.now
    await send(plane, report(run.id))
    plane.pass_time(5)
    await send(plane, report(run.id))
    async with plane.uow() as uow:
        status = await uow.of(QueryStore).find_status("flights")
    assert status is not None
    assert (status.since, status.received_at) == (began, plane.now)
    await send(plane, report(run.id, state=QueryState.HELD))
    async with plane.uow() as uow:
        status = await uow.of(QueryStore).find_status("flights")
    assert status is not None
    assert (status.state, status.since) == (QueryState.HELD, plane.now)


async def test_old_batches_and_those_beyond_the_newest_are_deleted(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_store, "MOST_BATCHES", 3)
    run = await running_query(plane)
    other = await running_query(plane, "others")
    await send(plane, report(other.id, progress(0)))
    await send(plane, report(run.id, *(progress(number) for number in range(5))))
    assert (await expired(plane))["query_batches"] == 2
    assert [one.batch for one in await batches(plane)] == [4, 3, 2]
    plane.now += KEPT_FOR + timedelta(minutes=1)
    await send(plane, report(run.id, progress(5)))
    assert (await expired(plane))["query_batches"] == 4
    assert [one.batch for one in await batches(plane)] == [5]
    assert await batches(plane, "others") == []


async def expired(plane: ControlPlane) -> dict[str, int]:
    async with plane.uow() as uow:
        removed = await uow.of(QueryStore).expire(now=plane.now)
        await uow.commit()
    return removed


async def test_retention_and_deletion_of_the_pipeline_take_batches_along(plane: ControlPlane) -> None:
    run = await running_query(plane)
    await send(plane, report(run.id, progress(0)))
    async with plane.uow() as uow:
        assert (await retention.expire(uow, now=plane.now))["query_batches"] == 0
        await uow.of(PipelineStore).remove("flights")
        await uow.commit()
    assert await batches(plane) == []
