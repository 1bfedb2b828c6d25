"""A migration that is driven to its end and back, with every gate's evidence in the database, on a server that has
forgotten everything before each turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from app.core.runs.mode import Mode
from app.kit.errors import ConflictError
from app.products.migrations.alarms import AlarmKind
from app.products.migrations.look import AuditNow
from app.products.migrations.migration import Migration, MigrationState, MigrationStepKind, Stage, StepState
from app.products.migrations.service import asking
from tests.support.control_plane import task_heartbeat
from tests.support.migrating import OTTO, Migrating, ServerDiedError, id_of

A, B, C = Mode.GROUP_ONLY, Mode.GENERATION, Mode.V2
P0, P1, T0, T1 = id_of(A, 0), id_of(A, 1), id_of(C, 0), id_of(C, 1)


def is_over(migration: Migration) -> bool:
    return not migration.is_open


def in_stage(stage: Stage) -> Callable[[Migration], bool]:
    return lambda migration: migration.stage is stage


def is_stopped(migration: Migration) -> bool:
    return migration.state is MigrationState.STOPPED


async def sentences(migrating: Migrating, migration: Migration) -> list[str]:
    async with migrating.plane.uow() as uow:
        return [one.sentence for one in await asking.list_evidence(uow, migration.id)]


async def act(
    migrating: Migrating, ask: Callable[..., Awaitable[Migration]], migration: Migration, *args: object, **named: object
) -> Migration:
    async with migrating.plane.uow() as uow:
        changed = await ask(uow, migration.id, *args, by=OTTO, why="as the test says", now=migrating.plane.now, **named)
        await uow.commit()
    return changed


async def test_every_stage_forward_is_proven_and_the_run_ends_up_at_the_new_revision(migrating: Migrating) -> None:
    run = await migrating.running()
    migration = await migrating.start()
    done = await migrating.until(migration, is_over)
    assert done.state is MigrationState.DONE
    assert await migrating.modes() == [C, C]
    assert await sentences(migrating, migration) == [
        "on to first bounce",
        "began: bounce instance 0 to generation",
        "done: bounce instance 0 to generation",
        "began: bounce instance 1 to generation",
        "done: bounce instance 1 to generation",
        "on to second bounce",
        "began: bounce instance 0 to v2",
        "done: bounce instance 0 to v2",
        "began: bounce instance 1 to v2",
        "done: bounce instance 1 to v2",
        "began: fence 2 ids",
        "done: fence 2 ids",
        "on to verify",
        "done",
    ]
    assert migrating.fences == [P0, P1]
    after = await migrating.run()
    assert (after.id, after.revision, after.targets) == (run.id, 3, {})
    assert done.offsets == {"in-0": 5, "in-1": 7}


async def test_the_evidence_of_a_gate_holds_the_incarnations_that_opened_it(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    async with migrating.plane.uow() as uow:
        evidence = await asking.list_evidence(uow, migration.id)
    gate = next(one for one in evidence if one.sentence == "on to second bounce")
    assert {one.name: one.standing for one in gate.clauses}["ids_taken_over"] == "open"
    assert gate.look.ids[P0].producer_epoch == migrating.epochs[P0]
    assert {held for task in gate.look.tasks for held in task.holds} == {
        gate.look.now_of(P0),
        gate.look.now_of(P1),
    }
    assert gate.who == "migrations"


async def test_the_way_back_goes_by_generations_and_fences_the_ids_of_the_tasks(migrating: Migrating) -> None:
    await migrating.running(C)
    migration = await migrating.start(A)
    done = await migrating.until(migration, is_over)
    assert done.state is MigrationState.DONE
    assert await migrating.modes() == [A, A]
    assert migrating.fences == [T0, T1]
    bounced = [(one.ordinal, one.to) for one in done.steps if one.kind is MigrationStepKind.BOUNCE]
    assert bounced == [(0, B), (1, B), (0, A), (1, A)]


async def test_another_migration_knows_what_the_one_before_has_fenced(migrating: Migrating) -> None:
    """The retired ids are those of the first run's leases, and are at the fence's epoch."""
    await migrating.running()
    first = await migrating.start()
    await migrating.until(first, is_over)
    # Its next lease gets another partition, so that no task initialises the id of the first one.
    migrating.reads[0] = 2
    back = await migrating.start(B)
    done = await migrating.until(back, is_over)
    assert done.state is MigrationState.DONE
    assert await migrating.modes() == [B, B]
    assert migrating.fences == [P0, P1, T0, T1]
    async with migrating.plane.uow() as uow:
        assert await asking.list_alarms(uow, back.id) == []


@pytest.mark.parametrize("stage", [Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY])
async def test_it_turns_round_from_any_stage(migrating: Migrating, stage: Stage) -> None:
    await migrating.running()
    migrating.waiting = {"out-0": (7, 9)}
    migration = await migrating.start()
    await migrating.until(migration, in_stage(stage))
    await migrating.turn()
    await act(migrating, asking.roll_back, migration, await migrating.look(migration), to=A)
    migrating.waiting = {}
    done = await migrating.until(migration, is_over)
    assert (done.state, done.goal) == (MigrationState.DONE, A)
    assert await migrating.modes() == [A, A]


async def test_an_instance_on_its_way_to_v2_stays_when_the_migration_turns_round(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None and seen.step.to is C)
    await act(migrating, asking.roll_back, migration, await migrating.look(migration), to=A)
    run = await migrating.run()
    assert run.target_of(0) == run.instances[0].revision
    await migrating.until(migration, is_over)
    assert await migrating.modes() == [A, A]
    assert T0 not in migrating.epochs, "no lease of v2 has begun"


async def test_a_bounce_that_does_not_come_back_stops_the_migration_until_it_is_retried(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    migrating.away = {0}
    stopped = await migrating.until(migration, is_stopped, seconds=20)
    assert "instance 0 has no lease after 1 yet" in stopped.missing
    assert [one.state for one in stopped.steps] == [StepState.LATE]
    await migrating.turn()
    assert await migrating.get(migration) == stopped, "it never goes on by itself"
    migrating.away = set()
    await act(migrating, asking.resume_migration, migration)
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE


async def test_the_open_transaction_of_a_lost_instance_is_waited_for_until_its_end(
    migrating: Migrating,
) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None)
    await migrating.lose(0)
    migrating.open_ids.add(P0)
    # Its next lease gets another partition, so that no task initialises the id of the first one.
    migrating.reads[0] = 2
    for _ in range(5):
        await migrating.turn()
    seen = await migrating.get(migration)
    assert [(one.ordinal, one.state) for one in seen.steps] == [(0, StepState.UNDERWAY)]
    migrating.time_out(P0)
    await migrating.until(migration, lambda seen: len(seen.steps) == 2)


async def test_an_id_without_a_new_owner_closes_the_first_gate_until_it_is_fenced(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None)
    await migrating.lose(0)
    migrating.reads[0] = 2
    stopped = await migrating.until(migration, is_stopped, seconds=20)
    assert (stopped.stage, P0 in stopped.missing) == (Stage.FIRST_BOUNCE, True)
    await act(migrating, asking.fence_id, migration, await migrating.look(migration), transactional_id=P0)
    await act(migrating, asking.resume_migration, migration)
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    assert migrating.fences == [P0]


async def test_an_id_that_a_live_task_holds_is_not_fenced_by_hand(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.FIRST_BOUNCE))
    with pytest.raises(ConflictError, match="is alive"):
        await act(migrating, asking.fence_id, migration, await migrating.look(migration), transactional_id=P0)


async def test_a_retired_id_in_use_stops_the_migration_and_is_reported_once(migrating: Migrating) -> None:
    await migrating.running()
    migrating.audit_now = AuditNow(audit_id="a1", is_through=False)
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.VERIFY))
    migrating.epochs[P1] += 1
    stopped = await migrating.until(migration, is_stopped)
    assert stopped.missing.startswith(f"retired id {P1} is in use: fenced at epoch")
    await migrating.turn()
    async with migrating.plane.uow() as uow:
        (alarm,) = await asking.list_alarms(uow, migration.id)
    assert alarm.kind is AlarmKind.GIVEN_UP_ID_LIVES


async def test_a_member_of_an_older_stage_stops_the_migration_and_names_host_and_process(migrating: Migrating) -> None:
    run = await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    await migrating.plane.beat(task_heartbeat(run.id, ordinal=1, lease=1, sequence=900))
    stopped = await migrating.until(migration, is_stopped)
    assert "process 4711 on w1" in stopped.missing
    async with migrating.plane.uow() as uow:
        (alarm,) = await asking.list_alarms(uow, migration.id)
    assert (alarm.kind, alarm.host, alarm.pid) == (AlarmKind.OLDER_MEMBER, "w1", 4711)


async def test_a_fence_that_a_server_left_in_the_middle_is_gone_on_with(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None and seen.step.kind is MigrationStepKind.FENCE)
    migrating.dies_at = P1
    with pytest.raises(ServerDiedError):
        await migrating.turn()
    assert (migrating.fences, migrating.dies_at) == ([P0], "")
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE
    assert migrating.fences == [P0, P1], "what is done is not done again"


async def test_a_paused_migration_begins_nothing(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.FIRST_BOUNCE))
    await act(migrating, asking.pause_migration, migration)
    for _ in range(5):
        await migrating.turn()
    assert await migrating.modes() == [A, A]
    await act(migrating, asking.resume_migration, migration)
    assert (await migrating.until(migration, is_over)).state is MigrationState.DONE


async def test_an_aborted_migration_leaves_all_as_it_is_and_another_one_goes_on(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: len(seen.steps) == 2)
    aborted = await act(migrating, asking.abort_migration, migration, await migrating.look(migration))
    assert aborted.state is MigrationState.ABORTED
    modes = await migrating.modes()
    for _ in range(5):
        await migrating.turn()
    assert await migrating.modes() == modes == [B, A]
    again = await migrating.start()
    assert (await migrating.until(again, is_over)).state is MigrationState.DONE
    assert await migrating.modes() == [C, C]


async def test_readers_need_to_reach_the_end_of_then_and_not_of_now(migrating: Migrating) -> None:
    """Under load a transaction is open at every check."""
    await migrating.running()
    migrating.waiting = {"out-0": (7, 9)}
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.VERIFY))
    for _ in range(3):
        await migrating.turn()
    migrating.waiting = {"out-0": (8, 40)}
    await migrating.turn()
    seen = await migrating.get(migration)
    assert [one.seen for one in seen.gate if not one.is_open] == ["the LSO of out-0 is 8, below 9"]
    migrating.waiting = {"out-0": (9, 50)}
    assert (await migrating.until(migration, is_over, turns=3)).state is MigrationState.DONE


@pytest.mark.slow
async def test_an_audit_that_found_a_duplicate_keeps_the_last_gate_shut(migrating: Migrating) -> None:
    await migrating.running()
    migrating.audit_now = AuditNow(audit_id="a1", is_through=True, duplicated=2, expected=40)
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.VERIFY))
    stopped = await migrating.until(migration, is_stopped, turns=150, seconds=28)
    assert (stopped.stage, stopped.is_open) == (Stage.VERIFY, True)
    assert "duplicated 2" in stopped.missing
