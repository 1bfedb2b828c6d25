"""Reports of drivers: by the token of their own lease, only while it is current, and with possible numbers."""

from __future__ import annotations

from datetime import timedelta

import httpx
import msgspec
import pytest

from app.core.runs.number_bounds import LARGEST, LONGEST_INTERVAL_MS
from app.core.runs.task import OutcomeKind
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError
from app.products.dataframes.accepting import LONGEST_QUERY_ID, accepted_report
from app.products.dataframes.store import QueryStore
from app.products.dataframes.wire import BATCHES_PATH, LARGEST_REPORT, QueryAnswer, QueryReport
from tests.support.control_plane import ControlPlane
from tests.support.queries import NOW, PARTS, QUERY, progress, report, running_query, send


class PlaneOf(ControlPlane):
    """The control plane of a server's wiring."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(database=None)  # pyright: ignore[reportArgumentType]
        self.wiring = wiring

    def uow(self) -> UnitOfWork:
        made = self.wiring.unit_of_work()
        assert isinstance(made, UnitOfWork)
        return made


async def stored(plane: ControlPlane) -> list[int]:
    async with plane.uow() as uow:
        return [one.batch for one in await uow.of(QueryStore).newest("flights", limit=500)]


async def test_report_needs_the_token_of_its_lease(api_wiring: Wiring, workers_client: httpx.AsyncClient) -> None:
    plane = PlaneOf(api_wiring)
    await plane.pipeline("flights", transform=QUERY)
    run = await plane.run("flights")
    secret = await plane.submit(run.id)
    await plane.claim(run.id)

    async def post(message: QueryReport | bytes, token: str = secret) -> httpx.Response:
        content = message if isinstance(message, bytes) else msgspec.json.encode(message)
        return await workers_client.post(BATCHES_PATH, content=content, headers={"Authorization": f"Bearer {token}"})

    assert (await post(report(run.id, progress(0)), "guessed")).status_code == 401
    for other in (report(run.id, progress(0), lease=2), report(run.id, progress(0), ordinal=1)):
        assert (await post(other)).status_code == 403
    assert (await post(b'{"protocol_version": 4, "batches": "none"}')).status_code == 400
    assert (await post(report(run.id, protocol_version=1_000))).status_code == 426
    assert (await post(report(run.id, progress(-1)))).status_code == 422
    assert await stored(plane) == []
    answer = await post(report(run.id, progress(0), progress(1)))
    assert answer.status_code == 200, answer.text
    assert msgspec.json.decode(answer.content, type=QueryAnswer).stored
    assert await stored(plane) == [1, 0]


async def test_report_of_an_earlier_lease_is_answered_and_not_stored(plane: ControlPlane) -> None:
    run = await running_query(plane)
    await send(plane, report(run.id, progress(0)))
    await plane.outcome(run.id, kind=OutcomeKind.FAILED)
    await plane.lease(run.id)
    late = await send(plane, report(run.id, progress(0, input_rows=7), progress(1)))
    assert late.answer.stored
    assert await stored(plane) == [0]
    await plane.submit(run.id, lease=2)
    await send(plane, report(run.id, progress(1), lease=2))
    assert await stored(plane) == [1, 0]


async def test_impossible_numbers_are_moved_to_their_bounds_and_counted(plane: ControlPlane) -> None:
    run = await running_query(plane)
    hostile = progress(
        3,
        trigger_ms=900,
        parts_ms={**PARTS, "addBatch": 10**30, "walCommit": -5, "x" * 9_000: 1, "\x00": 2},
        state_operators={"dedupe": 3, "a": -1, "b": 10**30, "x" * 65: 1},
        input_rows=10**30,
        state_rows=-7,
        watermark_ms=-(10**30),
    )
    received = await send(plane, report(run.id, hostile, query_id="\x00" + "q" * 9_000))
    assert received.dropped == {
        "batches.counts": 1,
        "batches.watermark": 1,
        "batches.parts": 4,
        "batches.state_operators": 3,
    }
    async with plane.uow() as uow:
        (kept,) = await uow.of(QueryStore).newest("flights", limit=5)
    assert (kept.parts_ms["addBatch"], kept.parts_ms["walCommit"]) == (LONGEST_INTERVAL_MS, 0)
    assert set(kept.parts_ms) == set(PARTS)
    assert kept.state_operators == {"dedupe": 3}
    assert (kept.input_rows, kept.state_rows, kept.watermark) == (LARGEST, None, None)
    assert len(kept.query_id) == LONGEST_QUERY_ID


def test_impossible_batch_number_refuses_the_report() -> None:
    for number in (-1, LARGEST + 1):
        with pytest.raises(InvalidError, match="batch is") as refused:
            accepted_report(report("r", progress(0), progress(number)), now=NOW)
        assert refused.value.problems[0].field == "batches[1].batch"


def test_report_is_bounded_and_has_each_batch_once() -> None:
    many = [progress(number) for number in range(LARGEST_REPORT + 20)]
    accepted = accepted_report(report("r", progress(3), *many, progress(3, input_rows=5)), now=NOW)
    assert len(accepted.batches) == LARGEST_REPORT
    assert accepted.dropped == {"batches": 22}
    numbers = [one.batch for one in accepted.batches]
    assert numbers == sorted(set(numbers))
    assert next(one for one in accepted.batches if one.batch == 3).input_rows == 5


def test_clock_that_is_far_ahead_is_moved_back() -> None:
    ahead = NOW + timedelta(days=4_000)
    accepted = accepted_report(report("r", progress(0, ended_at=ahead)), now=NOW)
    assert accepted.batches[0].started_at == NOW + timedelta(days=1)


async def test_older_report_that_arrives_late_does_not_bring_its_state_back(database: Database) -> None:
    plane = ControlPlane(database)
    run = await running_query(plane)
    newer = report(run.id, state="held", sent_at_ms=2_000)
    older = report(run.id, state="running", sent_at_ms=1_000)
    for message in (newer, older):
        await send(plane, message)
    async with plane.uow() as uow:
        status = await uow.of(QueryStore).find_status("flights")
    assert status is not None
    assert status.state == "held"
