"""What the live check of an offset log costs where 100,000 events are kept.

python -m bench.offset_check

Two pipelines' logs, each of 50 partitions with 2,000 events. `two_weeks`: an event every ten minutes, as a healthy task
tells. `storm`: all of the last hour, as of tasks that abort without end. Of each it measures a whole live check, the
events that it read, and for how long the server's event loop stood still at most. Prints one JSON object and writes it
to bench/results/offset_check.json.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import sqlalchemy as sa

from app.edges.db import migrations
from app.edges.db.database import Database
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.main.products import PARTS
from app.products.offset_log import service as offset_log
from app.products.offset_log.store import OffsetLogStore
from bench.machine import keep, machine
from tests.support.control_plane import ControlPlane
from tests.support.databases import create_database
from tests.support.offset_tellers import Tasks, assigned, at, tasks_of

PARTITIONS, EVENTS, ROUNDS = 50, 2_000, 7
_SPREAD_S = {"two_weeks": 600.0, "storm": 1.0}
_EVENTS = sa.text(
    """
    INSERT INTO offset_events (run_id, ordinal, task, lease, attempt, topic, partition, index, checkpoints, event,
        first_at, last_at)
    SELECT run_id, ordinal, task, lease, attempt, topic, partition, n, 1,
        jsonb_build_object('type', 'checkpoint', 'index', n, 'number', 1, 'begins', 0, 'first', 0, 'last', 9,
            'next', 10, 'records', 10, 'outcome', 'aborted', 'checkpoints', 1, 'follows', 1),
        :now - (:events - n) * :spread_s * interval '1 second', :now - (:events - n) * :spread_s * interval '1 second'
    FROM offset_tellings, generate_series(2, :events) AS n
    """
)


async def _fill(tasks: Tasks, spread_s: float) -> None:
    for partition in range(PARTITIONS):
        await tasks.tell(0, assigned(0, 1), at(1, 0), recorded=EVENTS + 1, partition=partition)
    async with tasks.plane.uow() as uow:
        now = {"now": tasks.plane.now, "events": EVENTS, "spread_s": spread_s}
        await uow.connection.execute(_EVENTS, now)
        await uow.connection.execute(sa.text("ANALYZE"))
        await uow.commit()
    await tasks.tell(0)
    tasks.see(0)


async def _longest_pause_s(until: asyncio.Event) -> float:
    longest_s = 0.0
    while not until.is_set():
        began_at = time.perf_counter()
        await asyncio.sleep(0.001)
        longest_s = max(longest_s, time.perf_counter() - began_at)
    return longest_s


async def _measure(url: str, spread_s: float) -> dict[str, float]:
    await migrations.upgrade(url)
    database = Database(url, parts=PARTS)
    try:
        tasks = await tasks_of(ControlPlane(database))
        await _fill(tasks, spread_s)
        took_s, pauses_s = list[float](), list[float]()
        for _ in range(ROUNDS):
            is_over = asyncio.Event()
            ticking = asyncio.create_task(_longest_pause_s(is_over))
            began_at = time.perf_counter()
            assert await tasks.check() == 0
            took_s.append(time.perf_counter() - began_at)
            is_over.set()
            pauses_s.append(await ticking)
        async with tasks.plane.uow() as uow:
            heard = await uow.of(OffsetLogStore).heard("flights", since=tasks.plane.now - offset_log.LIVE_SPAN)
    finally:
        await database.close()
    return {
        "kept": PARTITIONS * EVENTS,
        "read": sum(len(one.events) for one in heard),
        "check_ms": round(statistics.median(took_s) * 1000, 1),
        "longest_pause_ms": round(statistics.median(pauses_s) * 1000, 1),
    }


def main() -> None:
    on = machine()
    with EmbeddedPostgres.start() as postgres:
        found: dict[str, object] = {
            name: asyncio.run(_measure(create_database(postgres.url), spread_s)) for name, spread_s in _SPREAD_S.items()
        }
    keep("offset_check", on, found)


if __name__ == "__main__":
    main()
