"""What a turn of retention leaves of tables that grow with time alone: written day by day, as long as tasks report.

A real Postgres, and the server's own loop (app/core/runs/loops/retention.py) whose clock is moved. Rows have the
columns that
count and are written by SQL at the rate at which the server writes them; a turn follows each two hours of samples, and
each day of the others, where the server has one a minute. `most_left` is the largest number of rows that any turn left,
`most` what it must not be above.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa

from app.core.runs.loops.retention import Retention
from app.core.runs.store.retention import COUNTS_FOR, EVENTS_FOR, FINE_COUNTS_FOR, SAMPLES_FOR
from app.edges.db import migrations
from app.edges.db.database import Database
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.main.products import PARTS
from app.kit.chart_range import FINE_FOR
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane, PlaneClock
from tests.support.databases import create_database

_DAY = timedelta(days=1)
EVENTS_A_DAY = 200 * 24 * 4
"""For two hundred tasks, each of which gets or loses a partition four times an hour."""
_AT = "FROM generate_series(CAST(:begin AS timestamptz), CAST(:end AS timestamptz) - interval '1 ms', {every}) AS at"


class Growing(NamedTuple):
    """A table, for how many days it is written, how much of it between turns, and how many rows may be left then."""

    table: str
    days: int
    turn_every: timedelta
    most: int
    kept: str
    written_by: str


def _rows(span: timedelta, every: timedelta) -> int:
    return int(span / every)


_SECOND, _MINUTE, _HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
TABLES = (
    Growing(
        "run_samples",
        15,
        2 * _HOUR,
        # And one of the minute in which the bound between the two lies. Rates that change leave up to four a minute.
        _rows(FINE_FOR, _SECOND) + _rows(SAMPLES_FOR, _MINUTE) + 1,
        "one a second for an hour, one a minute for 14 days",
        "INSERT INTO run_samples (run_id, at, records_in_per_s, records_out_per_s, commits_per_s, aborts_per_s) "
        "SELECT :run_id, at, 1, 1, 1, 0 " + _AT.format(every="interval '1 second'"),
    ),
    Growing(
        "task_events",
        31,
        _DAY,
        EVENTS_A_DAY * EVENTS_FOR.days,
        "30 days",
        "INSERT INTO task_events (run_id, event_id, ordinal, lease, task, attempt, kind, at, message, partitions, "
        "received_at) SELECT :run_id, gen_random_uuid()::text, 0, 1, 0, 0, 'assigned', at, 'simulated', '{}', at "
        + _AT.format(every=f"interval '1 day' / {EVENTS_A_DAY}"),
    ),
    Growing(
        "id_counts",
        91,
        _DAY,
        _rows(FINE_COUNTS_FOR, _MINUTE) + _rows(COUNTS_FOR, _HOUR) + 1,
        "one a minute for 6 hours, one an hour for 90 days",
        f"INSERT INTO id_counts (kafka_cluster_id, at, ids, ours, orphaned) SELECT '{KAFKA_CLUSTER_ID}', at, 1, 1, 0 "
        + _AT.format(every="interval '1 minute'"),
    ),
)


async def _grown(plane: ControlPlane, growing: Growing, run_id: str) -> dict[str, object]:
    loop = Retention(unit_of_work=plane.uow, clock=PlaneClock(plane))
    counted = sa.text(f"SELECT count(*) FROM {growing.table}")  # noqa: S608 - names of our own tables
    left: list[int] = []
    took_ms: list[float] = []
    written = 0
    for _ in range(_rows(growing.days * _DAY, growing.turn_every)):
        begin: datetime = plane.now
        plane.now += growing.turn_every
        async with plane.uow() as uow:
            statement = sa.text(growing.written_by)
            # Not every table has a run.
            parameters = {"begin": begin, "end": plane.now, "run_id": run_id}
            names = {name: value for name, value in parameters.items() if f":{name}" in growing.written_by}
            written += (await uow.connection.execute(statement, names)).rowcount
            await uow.commit()
        began = time.perf_counter()
        await loop.turn()
        took_ms.append((time.perf_counter() - began) * 1000)
        async with plane.uow() as uow:
            left.append((await uow.connection.execute(counted)).scalar_one())
    return {
        "table": growing.table,
        "kept": growing.kept,
        "days": growing.days,
        "written_a_day": round(written / growing.days),
        "written": written,
        "most_left": max(left),
        "left_at_the_end": left[-1],
        "most": growing.most,
        "slowest_turn_ms": round(max(took_ms)),
    }


async def _retention(url: str) -> Sequence[dict[str, object]]:
    await migrations.upgrade(url)
    database = Database(url, parts=PARTS)
    try:
        plane = ControlPlane(database)
        run = await plane.running()
        return [await _grown(plane, growing, run.id) for growing in TABLES]
    finally:
        await database.close()


def retention() -> Sequence[dict[str, object]]:
    """The written and the remaining rows of each table."""
    with EmbeddedPostgres.start() as postgres:
        return asyncio.run(_retention(create_database(postgres.url)))
