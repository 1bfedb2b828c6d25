"""Bad records of a run: summed over its attempts, on the page, in REST, and without the claims of a hostile worker."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from app.core.runs.bad_records import MOST_REPORTED, BadCause, BadMinute, BadRecordSummary
from app.core.runs.number_bounds import LARGEST
from app.core.runs.service import tasks
from tests.support.control_plane import ControlPlane, task_heartbeat

CAUSE = BadCause(
    topic="in",
    partition=0,
    error="no number",
    records=300,
    first_offset=17,
    last_offset=900,
    first_at_ms=1_000,
    last_at_ms=2_000,
)


async def told(plane: ControlPlane, run_id: str) -> BadRecordSummary:
    async with plane.uow() as uow:
        return await tasks.get_bad_records(uow, run_id, now=plane.now)


async def test_attempts_of_a_run_are_one_row_for_each_cause_and_partition(plane: ControlPlane) -> None:
    run = await plane.running()
    minute = int(plane.now.timestamp()) // 60
    first = task_heartbeat(run.id, records_skipped=300)
    await plane.beat(replace(first, bad_records=(CAUSE,), bad_minutes=(BadMinute(minute=minute, skipped=300),)))
    later = replace(CAUSE, records=5, first_offset=901, last_offset=950, first_at_ms=3_000, last_at_ms=4_000)
    other = replace(CAUSE, partition=1, records=1)
    second = task_heartbeat(run.id, attempt=1, records_skipped=6)
    await plane.beat(
        replace(second, bad_records=(later, other), bad_minutes=(BadMinute(minute=minute + 1, skipped=6),))
    )
    found = await told(plane, run.id)
    assert found.causes == (
        replace(CAUSE, records=305, last_offset=950, last_at_ms=4_000),
        replace(CAUSE, partition=1, records=1),
    )
    assert found.skipped_last_hour == 306
    plane.now += timedelta(minutes=60)
    assert (await told(plane, run.id)).skipped_last_hour == 6
    plane.now += timedelta(minutes=2)
    assert (await told(plane, run.id)).skipped_last_hour == 0
    assert (await told(plane, run.id)).causes == found.causes


async def test_run_without_bad_records_and_an_older_worker_have_none(plane: ControlPlane) -> None:
    run = await plane.running()
    assert await told(plane, run.id) == BadRecordSummary()
    await plane.beat(task_heartbeat(run.id))
    assert await told(plane, run.id) == BadRecordSummary()


async def test_impossible_claims_of_a_worker_are_bounded(plane: ControlPlane) -> None:
    run = await plane.running()
    foreign = replace(CAUSE, topic="of another pipeline")
    huge = replace(CAUSE, records=LARGEST * 5, last_offset=LARGEST * 5, last_at_ms=LARGEST, error="x" * 10_000)
    many = tuple(replace(CAUSE, partition=number) for number in range(1, 500))
    minute = int(plane.now.timestamp()) // 60
    minutes = tuple(BadMinute(minute=minute, skipped=1) for _ in range(1_000))
    await plane.beat(replace(task_heartbeat(run.id), bad_records=(foreign, huge, *many), bad_minutes=minutes))
    found = await told(plane, run.id)
    assert len(found.causes) == MOST_REPORTED - 1
    assert found.causes[0].records == LARGEST
    assert len(found.causes[0].error) == 200
    assert {one.topic for one in found.causes} == {"in"}
    assert found.skipped_last_hour == 1
