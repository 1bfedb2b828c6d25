"""The live check of offset logs reads one hour of two weeks."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from app.products.offset_log.store import OffsetLogStore
from tests.support.control_plane import ControlPlane
from tests.support.offset_tellers import committed, tasks_of

_TWO_WEEKS_OF_OFFSETS = sa.text(
    """
    INSERT INTO offset_events (run_id, ordinal, task, lease, attempt, topic, partition, index, checkpoints, event,
        first_at, last_at)
    SELECT told.run_id, told.ordinal, told.task, told.lease, told.attempt, told.topic, told.partition, n, 1,
        told.event || jsonb_build_object('index', n), :now - (2000 - n) * interval '10 minutes',
        :now - (2000 - n) * interval '10 minutes'
    FROM offset_events AS told, generate_series(1, 2000) AS n
    """
)
_ROWS_READ = sa.text("SELECT sum(idx_tup_read) AS rows FROM pg_stat_user_indexes WHERE relname = 'offset_events'")


async def test_newest_events_are_found_without_a_scan_of_all_rows(plane: ControlPlane) -> None:
    """Ten partitions have a row every ten minutes for two weeks: an hour is a few rows of each."""
    tasks = await tasks_of(plane)
    for partition in range(10):
        await tasks.tell(0, committed(0, 0, 10), partition=partition)

    async def rows_read() -> int:
        async with plane.uow() as uow:
            await uow.connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
            await uow.commit()
        async with plane.uow() as uow:
            (read,) = await uow.connection.rows(_ROWS_READ)
        return read.rows

    async with plane.uow() as uow:
        await uow.connection.execute(_TWO_WEEKS_OF_OFFSETS, {"now": plane.now})
        await uow.connection.execute(sa.text("ANALYZE offset_events"))
        await uow.commit()
    before = await rows_read()
    async with plane.uow() as uow:
        heard = await uow.of(OffsetLogStore).heard("flights", since=plane.now - timedelta(hours=1))
        await uow.commit()
    events = sum(len(one.events) for one in heard)
    assert 60 <= events <= 80
    assert await rows_read() - before == events
