"""Rows that expire, and rows that stay."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from app.core.access.service import idempotency, tokens
from app.core.runs.service import retention
from app.core.runs.store.series import SeriesStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import EventKind
from app.core.wire.heartbeat import TaskEvent
from app.kit.access import Principal, Role
from tests.support.control_plane import ANNA, ControlPlane, task_heartbeat
from tests.support.run_samples import samples_of


async def test_old_samples_are_thinned_to_the_extremes_of_each_minute(plane: ControlPlane) -> None:
    run = await plane.running()
    for sequence in range(1, 181):
        await plane.beat(task_heartbeat(run.id, sequence=sequence, records_in=sequence))
        plane.pass_time(1)
    began = plane.now - timedelta(seconds=180)
    plane.now = began + timedelta(hours=1, seconds=120)
    async with plane.uow() as uow:
        removed = await retention.thin_samples(uow, now=plane.now)
        left = await samples_of(uow, run.id)
        again = await retention.thin_samples(uow, now=plane.now)
    assert (removed, again) == (117, 0)
    assert [(s.at - began).total_seconds() for s in left] == [0, 1, 60, *range(120, 180)], "a lowest and a highest rate"


async def test_peaks_and_aborts_of_old_minutes_stay_on_the_chart(plane: ControlPlane) -> None:
    run = await plane.running()
    records = aborted = 0
    for sequence in range(1, 121):
        records += {30: 72_116, 40: 0}.get(sequence, 400)
        aborted += sequence == 50
        await plane.beat(task_heartbeat(run.id, sequence=sequence, records_in=records, transactions_aborted=aborted))
        plane.pass_time(1)
    began = plane.now - timedelta(seconds=120)
    async with plane.uow() as uow:
        await retention.thin_samples(uow, now=began + timedelta(hours=2))
        points = await uow.of(SeriesStore).points(run_id=run.id, since=began, until=plane.now, step_s=60)
        kept = len(await samples_of(uow, run.id))
    assert kept <= 8
    assert (points[0].in_high, points[0].in_low) == (72_116, 0)
    assert [point.aborts for point in points] == [1, 0]


_TWO_WEEKS_OF_MINUTES = sa.text(
    """
    INSERT INTO run_samples (run_id, at, records_in_per_s, records_out_per_s, commits_per_s, aborts_per_s)
    SELECT :run_id, CAST(:end AS timestamptz) - n * interval '1 minute', 1, 1, 1, 0 FROM generate_series(1, 20160) AS n
    """
)


async def test_samples_of_two_weeks_are_looked_through_in_time(plane: ControlPlane) -> None:
    run = await plane.running()
    for sequence in (1, 2):
        await plane.beat(task_heartbeat(run.id, sequence=sequence))
        plane.pass_time(1)
    async with plane.uow() as uow:
        await uow.connection.execute(_TWO_WEEKS_OF_MINUTES, {"run_id": run.id, "end": plane.now - timedelta(minutes=1)})
        # As autovacuum leaves it: with what it then knows, Postgres compared every sample with every other one.
        await uow.connection.execute(sa.text("ANALYZE run_samples"))
        await uow.commit()
    async with plane.uow() as uow:
        removed = await retention.thin_samples(uow, now=plane.pass_time(timedelta(hours=2).total_seconds()))
    assert removed == 1


async def test_unused_rows_expire_and_the_rest_stays(plane: ControlPlane) -> None:
    run = await plane.running()
    event = TaskEvent(event_id="old", kind=EventKind.ABORTED, at_ms=int(plane.now.timestamp() * 1000), message="x")
    await plane.beat(task_heartbeat(run.id, events=[event]))
    async with plane.uow() as uow:
        await idempotency.recall(uow, key="old", by=ANNA, request_sha256="x", now=plane.now)
        await tokens.create_one_time_link(
            uow,
            principal=Principal(name="ben", role=Role.VIEWER),
            lifetime=timedelta(minutes=1),
            by=ANNA,
            now=plane.now,
        )
        _, secret = await tokens.create_token(uow, name="t", role=Role.VIEWER, by=ANNA, why=None, now=plane.now)
        await tokens.create_session(uow, secret, lifetime=timedelta(hours=1), now=plane.now)
        await uow.commit()
    later = plane.pass_time(timedelta(days=31).total_seconds())
    async with plane.uow() as uow:
        await idempotency.recall(uow, key="new", by=ANNA, request_sha256="x", now=later)
        removed = await retention.expire(uow, now=later)
        await uow.commit()
    assert {what: count for what, count in removed.items() if count} == {
        "idempotency_keys": 1,
        "one_time_links": 1,
        "sessions": 1,
        "run_samples": 1,
        "task_events": 1,
    }
    async with plane.uow() as uow:
        assert await tokens.authenticate(uow, secret, now=later) is not None, "a token ends when it is revoked"
        assert not await tokens.is_first_start(uow)


async def test_old_ownership_intervals_are_removed_and_open_ones_stay(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1))
    plane.pass_time(1)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 0)], generation=2))

    async def expired_after(days: int) -> int:
        async with plane.uow() as uow:
            removed = await retention.expire(uow, now=plane.now + timedelta(days=days))
            await uow.commit()
        return removed["partition_ownerships"]

    assert [await expired_after(days) for days in (29, 31, 400)] == [0, 1, 0]


async def test_attempts_that_others_have_followed_go_and_what_they_did_still_counts(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    for task, attempt, records_in in ((0, 0, 100), (0, 1, 20), (1, 0, 3)):
        await plane.beat(task_heartbeat(run.id, task=task, attempt=attempt, records_in=records_in))

    async def expire() -> int:
        async with plane.uow() as uow:
            removed = await retention.expire(uow, now=plane.now)
            await uow.commit()
        return removed["task_attempts"]

    async def now() -> tuple[int, list[tuple[int, int]]]:
        async with plane.uow() as uow:
            statuses = await uow.of(TaskStore).list_statuses([run.id])
            totals = (await uow.of(TaskStore).totals([run.id]))[run.id]
        return totals.records_in, [(status.last.task, status.last.attempt) for status in statuses]

    assert await expire() == 0, "they are young"
    plane.pass_time(timedelta(days=31).total_seconds())
    assert await expire() == 1
    assert await now() == (123, [(0, 1), (1, 0)])
    await plane.beat(task_heartbeat(run.id, task=0, attempt=2, records_in=4))
    plane.pass_time(timedelta(days=31).total_seconds())
    assert await expire() == 1
    assert await now() == (127, [(0, 2), (1, 0)])
    assert await expire() == 0
