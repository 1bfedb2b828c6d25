"""A migration of three instances under load, with real tasks, real brokers and their journals: forward and back.

A server is started before every turn. Every input record comes out once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from app.core.runs.mode import Mode
from app.products.migrations.alarms import AlarmKind
from app.products.migrations.migration import Migration, MigrationState, Stage
from app.products.migrations.service import asking
from tests.fault_suite.freeze_points import Point
from tests.support.feeder import Feeder
from tests.support.migrating_tasks import OTTO, MigratingTasks
from tests.support.tasks import TaskProcess
from tests.support.verifier import READ_COMMITTED, committed_offsets, end_offsets

pytestmark = pytest.mark.slow
A, B, C = Mode.GROUP_ONLY, Mode.GENERATION, Mode.V2
RECORDS_PER_S = 800
ORDINAL = 2
LONG = "the test wakes its zombies before it"


@asynccontextmanager
async def fed(migrating: MigratingTasks) -> AsyncGenerator[None]:
    """Under load; at its end everything is read, and every instance has drained."""
    feeder = Feeder(migrating.pipeline, records_per_s=RECORDS_PER_S)
    feeder.start()
    try:
        yield
    finally:
        await asyncio.to_thread(feeder.stop)
    pipeline = migrating.pipeline
    ends = end_offsets(pipeline.bootstrap_servers, pipeline.source, READ_COMMITTED)

    async def all_read() -> bool:
        found = committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
        return {number: found.get((pipeline.source, number)) for number in ends} == ends

    await migrating.until(all_read, "every record is committed")
    await migrating.drain()


@pytest.mark.always
async def test_three_instances_go_to_v2_and_back_under_load(migrating: MigratingTasks) -> None:
    """One instance is killed in each bounce."""
    await migrating.begin(A)
    async with fed(migrating):
        migration = await migrating.start(C, transaction_timeout=LONG)
        for stage, step, victim in ((Stage.FIRST_BOUNCE, 2, 0), (Stage.SECOND_BOUNCE, 5, 1)):
            await migrating.until_migrated(
                migration, lambda seen, stage=stage, step=step: seen.stage is stage and len(seen.steps) >= step, stage
            )
            lease = (await migrating.run()).instances[victim].lease
            migrating.of_lease(victim, lease).kill()
        done = await migrating.until_migrated(
            migration, lambda seen: seen.state is MigrationState.DONE, "forward to its end"
        )
        assert await migrating.modes() == [C, C, C]
        await assert_proven(migrating, done.id)
        back = await migrating.start(A, transaction_timeout=LONG)
        await migrating.until_migrated(back, lambda seen: seen.state is MigrationState.DONE, "back to its end")
        assert await migrating.modes() == [A, A, A]
        await assert_proven(migrating, back.id)
    migrating.pipeline.assert_whole()


async def test_it_turns_round_in_the_middle_of_the_second_bounce(migrating: MigratingTasks) -> None:
    await migrating.begin(A)
    async with fed(migrating):
        migration = await migrating.start(C, transaction_timeout=LONG)
        await migrating.until_migrated(
            migration, lambda seen: seen.stage is Stage.SECOND_BOUNCE and len(seen.steps) == 5, "two are on their way"
        )
        await migrating.roll_back(migration, A)
        await migrating.until_migrated(migration, lambda seen: seen.state is MigrationState.DONE, "back to its end")
        assert await migrating.modes() == [A, A, A]
    migrating.pipeline.assert_whole()


@pytest.mark.parametrize("stage", [Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE])
async def test_a_frozen_instance_that_wakes_when_all_is_done_writes_nothing_twice(
    migrating: MigratingTasks, stage: Stage
) -> None:
    """It is frozen past its session with a transaction open, and its lease is reported lost."""
    await migrating.begin(A)
    async with fed(migrating):
        migration = await migrating.start(C, transaction_timeout=LONG)
        await migrating.until_migrated(migration, lambda seen: seen.stage is stage, stage)
        zombie = await frozen(migrating)
        gate = Stage.SECOND_BOUNCE if stage is Stage.FIRST_BOUNCE else Stage.VERIFY
        await migrating.until_migrated(migration, lambda seen: seen.stage in (gate, Stage.VERIFY), "past the gate")
        migrating.points.thaw(zombie.pid)
        await alarmed(migrating, migration, zombie)
        await migrating.until_migrated(migration, lambda seen: seen.state is MigrationState.DONE, "its end")
    migrating.pipeline.assert_whole()


async def test_the_switch_in_one_step_writes_twice_what_a_frozen_instance_had_in_hand(
    migrating: MigratingTasks,
) -> None:
    """The negative control: the same freeze, and no gate between group_only and v2."""
    await migrating.begin(A)
    async with fed(migrating):
        await migrating.switch_at_once(0, 1)

        async def two_work_as_v2() -> bool:
            begun = [migrating.processes.get((ordinal, 2)) for ordinal in range(2)]
            return all(one is not None and one.snapshot is not None and one.snapshot.partitions for one in begun)

        await migrating.until(two_work_as_v2, "two are v2")
        zombie = await frozen(migrating, before_its_loss=lambda: migrating.switch_at_once(ORDINAL))

        async def all_are_v2() -> bool:
            return await migrating.modes() == [C, C, C]

        await migrating.until(all_are_v2, "the last is leased again")
        before = await taken_over(migrating, zombie.pid)
        assert before, "others have its partitions"
        migrating.points.thaw(zombie.pid)
        await asyncio.to_thread(zombie.wait_for_exit)
    found = migrating.pipeline.audit()
    assert found.duplicated, str(found)


async def alarmed(migrating: MigratingTasks, migration: Migration, zombie: TaskProcess) -> None:
    """An alarm names the process. The migration stops, unless it is done, and continues after a user's resume."""

    async def is_named() -> bool:
        async with migrating.plane.uow() as uow:
            alarms = await asking.list_alarms(uow, migration.id)
        assert {one.kind for one in alarms} <= {AlarmKind.OLDER_MEMBER}
        named = [(one.host, one.pid) for one in alarms]
        return (f"w{ORDINAL}", zombie.pid) in named and not zombie.is_running

    await migrating.until(is_named, "an alarm that names it, and its end")
    if (await migrating.get(migration)).state is MigrationState.DONE:
        # It woke when there was nothing more to stop.
        return
    async with migrating.plane.uow() as uow:
        await asking.resume_migration(uow, migration.id, by=OTTO, why="it is gone", now=migrating.plane.now)
        await uow.commit()


async def frozen(
    migrating: MigratingTasks,
    ordinal: int = ORDINAL,
    *,
    before_its_loss: Callable[[], Awaitable[None]] | None = None,
) -> TaskProcess:
    """Freeze the last instance's process in the middle of a checkpoint; its lease is lost."""
    lease = (await migrating.run()).instances[ordinal].lease
    process = migrating.processes[ordinal, lease]

    pid = process.process.pid
    # With records in hand, so that it commits them when it wakes if nothing keeps it from that.
    migrating.points.ask(Point.BEFORE_FIRST_OUTPUT, pid=pid)

    async def stands_still() -> bool:
        return pid in migrating.points.frozen()

    await migrating.until(stands_still, "it is frozen")
    # Others notice when its session is over.
    await migrating.until(lambda: gone(migrating, ordinal, lease), "the group goes on without it")
    if before_its_loss is not None:
        await before_its_loss()
    await migrating.lose(ordinal)
    return process.process


async def gone(migrating: MigratingTasks, ordinal: int, lease: int) -> bool:
    connection = {"bootstrap.servers": migrating.pipeline.bootstrap_servers}
    described = await migrating.brokers.describe_group(connection, migrating.pipeline.definition.group_id)
    return all(f"-{ordinal}-0-l{lease}-" not in one.client_id for one in described.members)


async def taken_over(migrating: MigratingTasks, pid: int) -> bool:
    """Return whether another process holds every partition."""

    async def held() -> bool:
        alive = [one for one in migrating.processes.values() if one.process.is_running and one.process.pid != pid]
        named = {at.partition for one in alive if one.snapshot for at in one.snapshot.partitions if at.committed}
        return len(named) == migrating.pipeline.partitions

    await migrating.until(held, "others have all partitions")
    return True


async def assert_proven(migrating: MigratingTasks, migration_id: str) -> None:
    """Every gate has its evidence: for each id an incarnation, a journal's record, and a holder or a fence."""
    async with migrating.plane.uow() as uow:
        evidence = await asking.list_evidence(uow, migration_id)
    gates = [one for one in evidence if one.step is None]
    assert [one.sentence for one in gates][-1] == "done"
    for gate in gates:
        assert all(clause.is_open for clause in gate.clauses), gate.sentence
        assert gate.proofs
        assert all(proof.offset >= 0 and proof.journal_at is not None for proof in gate.proofs)
    assert len({one.server for one in evidence}) > 5, "a server was started anew before every turn"
