"""The loop of orphans with played collectors: who is told, taken up, given up, and stopped."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.pipelines.store import PipelineStore
from app.edges.db.database import Database
from app.products.files.loops.orphan_watch import STALLED_AFTER, OrphanWatch
from app.products.files.orphan_findings import Amount, Collected
from app.products.files.orphan_look import OrphanLook, OrphanLookState, OrphanResult
from tests.support.control_plane import ControlPlane, PlaneClock
from tests.support.orphans import PlayedCollectors, asked, collecting, findings, get, looked
from tests.support.written_files import SINK


class Watched:
    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.collectors = PlayedCollectors()
        self.watch = self.another()

    def another(self) -> OrphanWatch:
        return OrphanWatch(unit_of_work=self.plane.uow, collectors=self.collectors, clock=PlaneClock(self.plane))

    async def turn(self, turns: int = 1, watch: OrphanWatch | None = None) -> None:
        for _ in range(turns):
            self.plane.pass_time(1)
            await (watch or self.watch).turn()

    async def begun(self) -> OrphanLook:
        look = await asked(self.plane)
        await self.turn()
        return look

    async def deleting(self) -> OrphanLook:
        """A collection that has told of a file."""
        look = await looked(self.plane, OrphanResult(findings=findings(self.plane.now, orphans=2)))
        self.plane.pass_time(1)
        collection = await collecting(self.plane, look.id)
        await self.turn()
        self.collectors.jobs[-1].tell("deleting: 1 of 2 files", Amount(files=1, size_bytes=10))
        await self.turn()
        return collection


@pytest.fixture
async def watched(database: Database) -> Watched:
    plane = ControlPlane(database)
    await plane.pipeline("flights", files=SINK)
    return Watched(plane)


async def test_what_was_asked_for_is_begun_told_and_ended(watched: Watched) -> None:
    await watched.turn(2)
    look = await watched.begun()
    assert (await get(watched.plane, look.id)).state is OrphanLookState.RUNNING
    (job,) = watched.collectors.jobs
    job.tell("12 files; waiting")
    await watched.turn()
    assert (await get(watched.plane, look.id)).told == "12 files; waiting"
    job.result = OrphanResult(findings=findings(watched.plane.now, orphans=1))
    await watched.turn(3)
    over = await get(watched.plane, look.id)
    assert (over.state, over.findings) == (OrphanLookState.DONE, job.result.findings)
    assert len(watched.collectors.jobs) == 1


async def test_one_after_the_other(watched: Watched) -> None:
    await watched.plane.pipeline("ferries", files=SINK, sink_topic="ferries")
    await asked(watched.plane)
    second = await asked(watched.plane, "ferries")
    await watched.turn(5)
    (job,) = watched.collectors.jobs
    assert job.order.pipeline == "flights"
    job.result = OrphanResult(reason="no broker answers")
    await watched.turn(2)
    assert watched.collectors.jobs[-1].order.pipeline == "ferries"
    assert (await get(watched.plane, second.id)).state is OrphanLookState.RUNNING


async def test_a_look_whose_server_dies_is_begun_anew_by_the_next(watched: Watched) -> None:
    look = await watched.begun()
    next_one = watched.another()
    await watched.turn(watch=next_one)
    assert (await get(watched.plane, look.id)).attempt == 2
    first, second = watched.collectors.jobs
    # The first one is not dead, and does not know.
    first.tell("listing")
    await watched.turn()
    assert first.is_stopped
    assert (await get(watched.plane, look.id)).told == ""
    second.result = OrphanResult(findings=findings(watched.plane.now))
    await watched.turn(watch=next_one)
    assert (await get(watched.plane, look.id)).state is OrphanLookState.DONE


async def test_a_look_that_ends_under_a_server_without_the_lock_is_not_kept(watched: Watched) -> None:
    look = await watched.begun()
    await watched.turn(watch=watched.another())
    watched.collectors.jobs[0].result = OrphanResult(findings=findings(watched.plane.now, orphans=9))
    await watched.turn()
    now = await get(watched.plane, look.id)
    assert (now.state, now.attempt, now.findings) == (OrphanLookState.RUNNING, 2, None)


async def test_a_collection_whose_server_dies_is_told_and_not_gone_on_with(watched: Watched) -> None:
    collection = await watched.deleting()
    await watched.turn(watch=watched.another())
    over = await get(watched.plane, collection.id)
    assert over.state is OrphanLookState.FAILED
    assert over.collected == Collected(deleted=Amount(files=1, size_bytes=10))
    assert len(watched.collectors.jobs) == 1


async def test_what_is_at_work_when_the_lock_is_lost_is_stopped(watched: Watched) -> None:
    """A look is begun anew; of a collection it is told what it had deleted to the last file."""
    look = await watched.begun()
    (job,) = watched.collectors.jobs
    watched.watch.interrupted()
    assert job.is_stopped
    job.result = OrphanResult(reason="stopped")
    await watched.turn(2)
    assert (await get(watched.plane, look.id)).attempt == 2
    watched.collectors.jobs[-1].result = OrphanResult(findings=findings(watched.plane.now, orphans=2))
    await watched.turn()

    collection = await watched.deleting()
    watched.watch.interrupted()
    deleted = Amount(files=2, size_bytes=20)
    watched.collectors.jobs[-1].result = OrphanResult(collected=Collected(deleted=deleted), reason="stopped")
    await watched.turn()
    over = await get(watched.plane, collection.id)
    assert (over.state, over.deleted) == (OrphanLookState.FAILED, deleted)


async def test_what_does_not_move_is_given_up_with_where_it_stood(watched: Watched) -> None:
    look = await watched.begun()
    (job,) = watched.collectors.jobs
    job.tell("listing")
    await watched.turn()
    watched.plane.now += STALLED_AFTER - timedelta(seconds=5)
    await watched.turn()
    assert not job.is_stopped
    # Not a word, and still a step.
    job.tell("listing")
    await watched.turn()
    watched.plane.now += STALLED_AFTER - timedelta(seconds=5)
    await watched.turn()
    assert (await get(watched.plane, look.id)).state is OrphanLookState.RUNNING
    await watched.turn(5)
    over = await get(watched.plane, look.id)
    assert job.is_stopped
    assert over.state is OrphanLookState.FAILED
    assert over.reason is not None
    assert "no progress for 10 minutes" in over.reason
    assert "listing" in over.reason


async def test_a_pipeline_that_is_deleted_meanwhile_ends_it(watched: Watched) -> None:
    await watched.begun()
    (job,) = watched.collectors.jobs
    async with watched.plane.uow() as uow:
        await uow.of(PipelineStore).remove("flights")
        await uow.commit()
    job.tell("listing")
    await watched.turn(2)
    assert job.is_stopped
    await watched.turn()
    assert len(watched.collectors.jobs) == 1


async def test_a_server_that_stops_stops_it(watched: Watched) -> None:
    await watched.begun()
    await watched.watch.close()
    assert watched.collectors.jobs[0].is_stopped
