"""The revisions with instances in a time range, from leases."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.core.runs.instance import InstanceState
from app.core.runs.run import RunEnd
from app.core.runs.store.runs import RunStore
from app.edges.db.database import Database
from app.products.audits.doubts import InForce
from app.products.audits.store import AuditStore
from tests.support.control_plane import ControlPlane

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


async def lived(plane: ControlPlane, run_id: str, lease: int) -> None:
    await plane.submit(run_id, lease=lease)
    await plane.claim(run_id, lease=lease)


async def test_revisions_in_force_are_those_with_instances_in_the_range(database: Database) -> None:
    """A bounce to revision 2 follows after three hours and ends at 4:30. Revision 3 is started at 5:00, up at 5:30."""
    plane = ControlPlane(database)
    began = plane.now
    await plane.pipeline("flights")
    first = await plane.run("flights")
    await lived(plane, first.id, lease=1)
    plane.now = began + 3 * HOUR
    await plane.revise("flights")
    async with plane.uow() as uow:
        await uow.of(RunStore).set_target(first.id, revision=2, bounce_requested_at=None)
        await uow.commit()
    await plane.move(first.id, 0, InstanceState.STOPPED)
    await lived(plane, first.id, await plane.lease(first.id))
    plane.now = began + 4.5 * HOUR
    await plane.move(first.id, 0, InstanceState.STOPPED, lease=2)
    async with plane.uow() as uow:
        await uow.of(RunStore).end(first.id, end=RunEnd.STOPPED, reason=None, now=plane.now)
        await uow.commit()
    plane.now = began + 5 * HOUR
    await plane.revise("flights")
    second = await plane.run("flights")
    plane.now = began + 5.5 * HOUR
    await lived(plane, second.id, lease=1)
    await plane.pipeline("another")

    async def found(begin: datetime | None, until: datetime | None, pipeline: str = "flights") -> InForce:
        async with plane.uow() as uow:
            return await uow.of(AuditStore).in_force(pipeline, begin, until)

    assert await found(began + 4 * HOUR, began + 6 * HOUR) == InForce(revisions=(3, 2))
    assert await found(began + 2 * HOUR, began + 4 * HOUR) == InForce(revisions=(2, 1))
    assert await found(began + HOUR, began + 2 * HOUR) == InForce(revisions=(1,))
    assert await found(began + 4 * HOUR, began + 5 * HOUR + MINUTE) == InForce(revisions=(2,)), "3 is not up yet"
    assert await found(began + 4.6 * HOUR, began + 5 * HOUR + MINUTE) == InForce(), "between two runs"
    assert await found(began - HOUR, began + HOUR) == InForce(revisions=(1,), begun_at=began)
    assert await found(None, None) == InForce(revisions=(3, 2, 1), begun_at=began)
    assert await found(began, None, "another") == InForce(), "it was never started"
