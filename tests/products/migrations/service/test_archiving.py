"""Retired ids are archived in the mapping store, until they are used again."""

from __future__ import annotations

from app.core.ids.registry import IdStanding, Needed, standing_of
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings import service as mappings
from app.core.mappings.mapping import Archived
from app.core.runs.mode import Mode
from app.products.migrations.migration import Migration, MigrationState, Stage
from app.products.migrations.service import asking
from tests.products.migrations.service.test_driving import P0, P1, T0, T1, act, in_stage, is_over
from tests.support.control_plane import CLUSTER, KAFKA_CLUSTER_ID
from tests.support.migrating import PIPELINE, Migrating


async def archive(migrating: Migrating) -> dict[str, Archived]:
    async with migrating.plane.uow() as uow:
        owned = await uow.of(TransactionalIdStore).of_pipeline(PIPELINE)
    return {one.transactional_id: one.archived for one in owned if one.archived is not None}


async def done(migrating: Migrating, goal: Mode = Mode.V2) -> Migration:
    migration = await migrating.until(await migrating.start(goal), is_over)
    assert migration.state is MigrationState.DONE
    return migration


async def test_ids_of_partitions_are_archived_by_the_migration_that_fenced_them(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    assert await archive(migrating) == {}, "they are in use until their gate"
    migration = await migrating.until(migration, is_over)
    step = migration.steps[-1]
    assert step.ended_at is not None
    assert await archive(migrating) == {
        name: Archived(since=step.ended_at, migration=migration.id) for name in (P0, P1)
    }
    async with migrating.plane.uow() as uow:
        shown = await mappings.list_mappings(uow, PIPELINE)
        of_cluster = await mappings.list_mappings_of_cluster(uow, CLUSTER)
    for found in (shown, of_cluster):
        assert [(one.assigned_id, one.transactional_id, one.archived and one.archived.migration) for one in found] == [
            (P0, T0, migration.id),
            (P1, T1, migration.id),
        ]


async def test_the_registry_calls_them_archived_and_not_orphaned(migrating: Migrating) -> None:
    await migrating.running()
    await done(migrating)
    async with migrating.plane.uow() as uow:
        owners = {
            one.transactional_id: one
            for one in await uow.of(TransactionalIdStore).of_cluster(kafka_cluster_id=KAFKA_CLUSTER_ID)
        }
    needed = Needed(owners=owners, of_tasks={T0, T1}, partitions={}, told={})
    assert standing_of(P0, needed) == (IdStanding.ARCHIVED, None)
    assert standing_of(T0, needed) == (IdStanding.OURS, None)


async def test_the_way_back_uses_them_again_and_archives_those_of_the_tasks(migrating: Migrating) -> None:
    await migrating.running()
    await done(migrating)
    back = await done(migrating, Mode.GENERATION)
    assert {name: one.migration for name, one in (await archive(migrating)).items()} == {T0: back.id, T1: back.id}
    again = await done(migrating)
    assert {name: one.migration for name, one in (await archive(migrating)).items()} == {P0: again.id, P1: again.id}


async def test_a_migration_that_turns_round_takes_them_out_of_the_archive(migrating: Migrating) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.VERIFY))
    assert set(await archive(migrating)) == {P0, P1}
    look = await migrating.look(migration)
    await act(migrating, asking.roll_back, migration, look, to=Mode.GENERATION)
    assert await archive(migrating) == {}
