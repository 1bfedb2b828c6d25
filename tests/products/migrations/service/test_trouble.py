"""Errors around a migration: refused fences, alarms, members without heartbeats, two servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from app.core.clusters.cluster import GroupMember
from app.core.pipelines.pipeline import FileSink
from app.core.runs.mode import DEFINED_BY
from app.edges.db.database import Database
from app.edges.db.locks import AdvisoryLocks
from app.kit.errors import ConflictError, InvalidError
from app.kit.loops.supervisor import Supervisor
from app.products.migrations.alarms import AlarmKind
from app.products.migrations.look import AuditNow
from app.products.migrations.loop import MigrationDriver
from app.products.migrations.migration import MigrationState, MigrationStepKind, Stage, StepState
from app.products.migrations.service import asking
from app.products.migrations.service.driving import record_fence
from tests.products.migrations.service.test_driving import P0, P1, A, B, act, in_stage, is_over, is_stopped
from tests.support.migrating import JOURNALLED, PIPELINE, Migrating
from tests.support.waiting import wait_for_async


async def test_a_fence_that_is_refused_is_late_and_says_what_it_was_answered(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None and seen.step.kind is MigrationStepKind.FENCE)
    migrating.refusal = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    stopped = await migrating.until(migration, is_stopped, seconds=20)
    assert f"{P0} is not fenced: TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in stopped.missing
    assert [one.state for one in stopped.steps][-1] is StepState.LATE
    migrating.refusal = ""
    await act(migrating, asking.resume_migration, migration)
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE


async def test_no_instance_is_bounced_while_the_group_has_lost_its_offsets(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    leases = [one.lease for one in (await migrating.run()).instances]
    migrating.lost = "the group flights-group has lost committed offsets: in-0 was committed at 5"
    stopped = await migrating.until(migration, is_stopped)
    assert (stopped.stage, stopped.missing, stopped.steps) == (Stage.FIRST_BOUNCE, migrating.lost, ())
    assert [one.lease for one in (await migrating.run()).instances] == leases
    migrating.lost = ""
    await act(migrating, asking.resume_migration, migration)
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE


async def test_a_pipeline_that_writes_files_is_never_led_to_group_only(migrating: Migrating) -> None:
    await migrating.running(B, files=FileSink(root="file:///data"))
    with pytest.raises(InvalidError, match="a frozen task of a file sink") as refused:
        await migrating.start(A)
    assert refused.value.field == "goal"
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    look = await migrating.look(migration)
    with pytest.raises(InvalidError, match="a frozen task of a file sink") as refused:
        await act(migrating, asking.roll_back, migration, look, to=A)
    assert refused.value.field == "to"
    await act(migrating, asking.roll_back, migration, look, to=B)


async def test_fences_that_take_long_are_made_over_several_turns(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None and seen.step.kind is MigrationStepKind.FENCE)
    migrating.fence_takes_s = 6.0
    await migrating.turn()
    assert migrating.fences == [P0]
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE
    assert migrating.fences == [P0, P1]


async def test_the_time_without_a_server_does_not_count_as_waiting(migrating: Migrating) -> None:
    """A server that returns after an hour must check the state before it reports missing evidence."""
    await migrating.running()
    migrating.away = {0}
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None and seen.step.kind is MigrationStepKind.BOUNCE)
    await migrating.turn()
    migrating.plane.pass_time(3600)
    await migrating.turn()
    assert (await migrating.get(migration)).state is MigrationState.ACTIVE
    migrating.away = set()
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE


@pytest.mark.slow
@pytest.mark.parametrize("state", [MigrationState.PAUSED, MigrationState.STOPPED])
async def test_an_alarm_is_raised_while_the_migration_waits_for_nothing(
    migrating: Migrating, state: MigrationState
) -> None:
    await migrating.running()
    migrating.audit_now = AuditNow(audit_id="a1", is_through=False)
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.VERIFY))
    if state is MigrationState.PAUSED:
        await act(migrating, asking.pause_migration, migration)
    else:
        await migrating.until(migration, is_stopped, turns=150, seconds=28)
    migrating.epochs[P1] += 1
    await migrating.turn()
    seen = await migrating.get(migration)
    assert seen.state is MigrationState.STOPPED
    assert seen.missing.startswith(f"retired id {P1} is in use: fenced at epoch")

    """Each check finds it stable, in another generation."""


async def test_a_group_that_rebalances_between_checks_keeps_the_preflight_closed(migrating: Migrating) -> None:
    """Each look finds it stable, in another generation."""
    await migrating.running()
    migration = await migrating.start()
    for _ in range(8):
        migrating.generation += 1
        await migrating.turn()
    assert (await migrating.get(migration)).stage is Stage.PREFLIGHT
    await migrating.until(migration, in_stage(Stage.FIRST_BOUNCE))

    """It is awake, without a generation, and known to the group's coordinator only."""


async def test_a_member_of_a_lease_that_is_over_keeps_the_first_gate_shut(migrating: Migrating) -> None:
    """It is awake, without a generation, and known to the group's coordinator only."""
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: len(seen.steps) == 2)
    migrating.guests = [GroupMember(member_id="old", client_id=f"fenceline-{PIPELINE}-0-0-l1-a0", host="/10.0.0.9")]
    stopped = await migrating.until(migration, is_stopped, seconds=20)
    assert stopped.stage is Stage.FIRST_BOUNCE
    assert "fenceline-flights-0-0-l1-a0 on /10.0.0.9 (group_only) is a member, and no live task" in stopped.missing
    migrating.guests = []
    await act(migrating, asking.resume_migration, migration)
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))


async def test_an_id_that_was_fenced_by_hand_may_be_taken_by_its_partitions_next_owner(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None)
    await migrating.lose(0)
    migrating.reads[0] = 2
    await migrating.until(migration, is_stopped, seconds=20)
    await act(migrating, asking.fence_id, migration, await migrating.look(migration), transactional_id=P0)
    await act(migrating, asking.resume_migration, migration)
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    # A rebalance gives the partition to instance 1, which still has a producer for each of its partitions.
    migrating.reads[1] = 0
    migrating.epochs[P0] += 1
    await migrating.turn()
    async with migrating.plane.uow() as uow:
        assert await asking.list_alarms(uow, migration.id) == []


async def test_there_is_no_way_back_from_the_preflight_but_to_abort(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    with pytest.raises(ConflictError, match="abort this migration instead"):
        await act(migrating, asking.roll_back, migration, await migrating.look(migration), to=A)
    await act(migrating, asking.abort_migration, migration, await migrating.look(migration))


async def test_an_abort_leaves_no_targets_where_all_instances_are_alike(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    await act(migrating, asking.abort_migration, migration, await migrating.look(migration))
    run = await migrating.run()
    assert (run.revision, run.targets) == (2, {})
    assert await migrating.modes() == [B, B]


async def test_the_evidence_names_incarnations_their_holders_and_the_journals_records(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, is_over)
    async with migrating.plane.uow() as uow:
        evidence = await asking.list_evidence(uow, migration.id)
    gate = next(one for one in evidence if one.sentence == "on to second bounce")
    held = {one.transactional_id: one for one in gate.proofs}
    assert set(held) == {P0, P1}
    for ordinal, name in enumerate((P0, P1)):
        one = held[name]
        assert (one.producer_id, one.ordinal, one.task, one.lease) == (7, ordinal, 0, 2)
        assert (one.host, one.pid, one.partition, one.offset) == ("w1", 4711, *JOURNALLED)
        assert one.generation is not None
        assert one.generation >= 0
        assert one.journal_at is not None
        assert one.heard_at is not None
    last = {one.transactional_id: one.fenced_in for one in evidence[-1].proofs}
    assert last[P0] == last[P1] == 5
    assert gate.server == "w1:/state"


async def test_an_archived_id_that_comes_alive_when_all_is_done_is_an_alarm(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    done = await migrating.until(migration, is_over)
    assert done.archived == {"in-0": P0, "in-1": P1}
    await migrating.turn()
    async with migrating.plane.uow() as uow:
        assert await asking.list_alarms(uow, migration.id) == []
    migrating.epochs[P1] += 1
    for _ in range(2):
        await migrating.turn()
    async with migrating.plane.uow() as uow:
        (alarm,) = await asking.list_alarms(uow, migration.id)
    assert (alarm.kind, P1 in alarm.sentence) == (AlarmKind.GIVEN_UP_ID_LIVES, True)
    assert (await migrating.get(migration)).state is MigrationState.DONE


async def test_ids_of_a_redefined_pipeline_may_be_in_use(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, is_over)
    guarantee, fencing = DEFINED_BY[B]
    await migrating.plane.revise(PIPELINE, processing_guarantee=guarantee, offset_fencing=fencing)
    migrating.epochs[P1] += 1
    await migrating.turn()
    async with migrating.plane.uow() as uow:
        assert await asking.list_alarms(uow, migration.id) == []


async def test_only_the_server_with_the_lock_drives(migrating: Migrating, database: Database) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None and seen.step.kind is MigrationStepKind.FENCE)
    migrating.publish()
    drivers = [migrating.driver(where=f"server {n}") for n in range(2)]
    turns: list[str] = []
    supervisors = [Supervisor([Counted(one, turns)], locks=AdvisoryLocks(database.url)) for one in drivers]
    running = [asyncio.create_task(one.run()) for one in supervisors]
    await until_turned(lambda: len(turns) >= 5)
    assert len(set(turns)) == 1, "the other one waits for the lock"
    assert migrating.fences == [P0, P1], "each id is fenced once"
    first, second = (running, running[::-1])[turns[0] == "server 1"]
    first.cancel()
    await until_turned(lambda: len(set(turns)) == 2)
    second.cancel()
    await asyncio.gather(*running, return_exceptions=True)

    """One has lost its lock in the middle of a turn, and continues."""


async def test_two_servers_that_fence_at_once_agree_on_the_later_one(migrating: Migrating) -> None:
    """One has lost its lock in the middle of a turn, and asks all the same."""
    await migrating.running()
    migration = await migrating.start()
    seen = await migrating.until(
        migration, lambda seen: seen.step is not None and seen.step.kind is MigrationStepKind.FENCE
    )
    assert seen.step is not None
    for _ in range(2):
        migrating.plane.pass_time(0.1)
        incarnation = await migrating.fence(seen, P0, step=seen.step.number)
        async with migrating.plane.uow() as uow:
            await record_fence(uow, migration.id, incarnation, step=seen.step.number, now=migrating.plane.now)
            await uow.commit()
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE


async def until_turned(is_so: Callable[[], bool]) -> None:
    async def seen() -> bool:
        return is_so()

    await wait_for_async(seen, 30, "turns of the server that shall drive")

    """A driver whose turns are recorded."""


class Counted:
    """A driver whose turns are noted."""

    def __init__(self, driver: MigrationDriver, turns: list[str]) -> None:
        self._driver, self._turns = driver, turns
        self.name, self.period_s = driver.name, driver.period_s

    async def turn(self) -> None:
        await self._driver.turn()
        self._turns.append(self._driver.where)

    def interrupted(self) -> None:
        self._driver.interrupted()
