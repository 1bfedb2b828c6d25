"""The frequent queries of pages use their indexes, in tables of a real size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.mappings.mapping import OwnershipFilter
from app.core.mappings.store.mappings import MappingStore
from app.edges.db.database import Database
from app.kit.db.unit_of_work import UnitOfWork
from app.products.audits.store import AuditStore
from tests.support.control_plane import ControlPlane, task_heartbeat

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)
_RESTARTS_AND_A_FEW_FENCINGS = sa.text(
    """
    INSERT INTO fencing_events (id, kafka_cluster_id, transactional_id, producer_id, producer_epoch, kind, cause,
        confidence, is_fencing, at, verdict, evidence, corrections, partitions, told_at, changed_at)
    SELECT gen_random_uuid(), 'kafka-1', 'tx-' || n, n, 0, 'epoch',
        CASE WHEN n % 1000 = 0 THEN 'takeover' ELSE 'clean_restart' END, 'likely', n % 1000 = 0,
        :now - n * interval '10 seconds',
        '{"cause": "takeover", "confidence": "likely", "at_ms": 0, "sentence": "made up"}', '[]', '[]', '{}', :now, :now
    FROM generate_series(1, 8000) AS n
    """
)
_TIMES_USED = sa.text("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'ix_fencing_events_is_fencing'")
_SINCE_A_DAY = FencingFilter(since=NOW - timedelta(days=1))


async def feed(uow: UnitOfWork) -> int:
    return len((await uow.of(FencingStore).list(FencingFilter(), after=None, limit=50)).items)


async def feed_of_a_cluster(uow: UnitOfWork) -> int:
    wanted = FencingFilter(kafka_cluster_id="kafka-1", cause=FencingCause.TAKEOVER)
    return len((await uow.of(FencingStore).list(wanted, after=None, limit=50)).items)


async def counts(uow: UnitOfWork) -> int:
    return (await uow.of(FencingStore).count_by_cause(_SINCE_A_DAY))[FencingCause.TAKEOVER]


@pytest.mark.parametrize("question", [feed, feed_of_a_cluster, counts])
async def test_fencings_are_found_without_a_walk_through_restarts(
    database: Database, question: Callable[[UnitOfWork], Awaitable[int]]
) -> None:
    async with database.unit_of_work() as uow:
        await uow.connection.execute(_RESTARTS_AND_A_FEW_FENCINGS, {"now": NOW})
        await uow.connection.execute(sa.text("ANALYZE fencing_events"))
        await uow.commit()
    async with database.unit_of_work() as uow:
        assert await question(uow) == 8
        await uow.connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        await uow.commit()
    async with database.unit_of_work() as uow:
        (used,) = await uow.connection.rows(_TIMES_USED)
    assert used.idx_scan > 0


_AN_AUDIT_A_MINUTE = sa.text(
    """
    INSERT INTO audits (id, pipeline_id, revision, state, since, asked_at, asked_by, is_scheduled, "window", id_place,
        padding_s, wait_until, ended_at, verdict, result)
    SELECT gen_random_uuid(), pipelines.id, 1, 'done', at, at, 'auditor', true, '{}', '{}', 0, at, at,
        CASE WHEN n % 1000 = 0 THEN 'broken' ELSE 'clean' END, '{}'
    FROM pipelines, generate_series(1, 8000) AS n, LATERAL (SELECT :now - n * interval '1 minute') AS times (at)
    """
)
_TIMES_BROKEN_USED = sa.text("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'ix_audits_broken'")


async def test_broken_audits_are_found_without_a_walk_through_clean_ones(database: Database) -> None:
    await ControlPlane(database).pipeline("flights")
    async with database.unit_of_work() as uow:
        await uow.connection.execute(_AN_AUDIT_A_MINUTE, {"now": NOW})
        await uow.connection.execute(sa.text("ANALYZE audits"))
        await uow.commit()
    async with database.unit_of_work() as uow:
        assert await uow.of(AuditStore).broken(since=NOW - timedelta(days=2)) == {"flights": 2}
        await uow.connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        await uow.commit()
    async with database.unit_of_work() as uow:
        (used,) = await uow.connection.rows(_TIMES_BROKEN_USED)
    assert used.idx_scan > 0


_A_PARTITION_THAT_MOVED_EVERY_MINUTE = sa.text(
    """
    INSERT INTO partition_ownerships (kafka_cluster_id, group_id, topic, partition, pipeline_id, owner_run_id,
        owner_ordinal, owner_lease, owner_task, owner_attempt, owner_host, generation, during)
    SELECT 'a-kafka-cluster', 'flights-group', 'in', partition, pipelines.id, gen_random_uuid(), 0, 1, 0, 0, 'w1', n,
        tstzrange(:now - (2001 - n) * interval '1 minute',
                  CASE WHEN n < 2000 THEN :now - (2000 - n) * interval '1 minute' END)
    FROM pipelines, generate_series(0, 3) AS partition, generate_series(1, 2000) AS n
    """
)
_OWNERSHIPS_READ = sa.text(
    "SELECT seq_tup_read AS whole, idx_tup_fetch AS few FROM pg_stat_user_tables WHERE relname = 'partition_ownerships'"
)


async def owner_of_a_moment(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        wanted = OwnershipFilter(topic="in", partition=2, at=NOW - timedelta(hours=1))
        found = await uow.of(MappingStore).history(wanted, kafka_cluster_id="a-kafka-cluster", after=None, limit=50)
        assert len(found.items) == 1


async def newest_owners(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        wanted = OwnershipFilter(group="flights-group", topic="in", partition=2)
        await uow.of(MappingStore).history(wanted, kafka_cluster_id="a-kafka-cluster", after=None, limit=50)


async def take_over(plane: ControlPlane) -> None:
    run = await plane.run()
    await plane.submit(run.id, 0)
    await plane.claim(run.id, 0)
    await plane.beat(task_heartbeat(run.id, partitions=[("in", one) for one in range(4)], generation=3_000))


@pytest.mark.parametrize("question", [owner_of_a_moment, newest_owners, take_over])
async def test_owners_are_found_without_a_walk_through_the_past(
    database: Database, question: Callable[[ControlPlane], Awaitable[None]]
) -> None:
    plane = ControlPlane(database, now=NOW)
    await plane.pipeline()
    async with database.unit_of_work() as uow:
        await uow.connection.execute(_A_PARTITION_THAT_MOVED_EVERY_MINUTE, {"now": NOW})
        await uow.connection.execute(sa.text("ANALYZE partition_ownerships"))
        await uow.commit()

    async def read() -> int:
        async with database.unit_of_work() as uow:
            await uow.connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
            await uow.commit()
        async with database.unit_of_work() as uow:
            (told,) = await uow.connection.rows(_OWNERSHIPS_READ)
        return told.whole + told.few

    before = await read()
    await question(plane)
    assert await read() - before < 500, "of 8,000 stretches"
