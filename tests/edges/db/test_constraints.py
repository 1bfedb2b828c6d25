"""The invariants of the schema: each is violated by hand, and Postgres refuses it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from app.core.access.store.commands import CommandStore
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import InstanceState
from app.core.runs.run import Run
from app.core.runs.store.instances import InstanceStore
from app.kit.errors import ConflictError, InvalidError, UnavailableError
from tests.support.control_plane import ANNA, ControlPlane, task_heartbeat


async def execute(plane: ControlPlane, statement: str, **parameters: Any) -> None:
    """One statement in a transaction of its own, with errors as the repositories see them."""
    uow = plane.uow()
    async with uow:
        await uow.connection.execute(sa.text(statement), parameters)
        await uow.commit()


async def another_lease(plane: ControlPlane, run: Run, lease: int) -> None:
    async with plane.uow() as uow:
        instance = await uow.of(InstanceStore).get(run.id, 0, 1)
        await uow.of(InstanceStore).add(replace(instance, lease=lease, state=InstanceState.PENDING))
        await uow.commit()


async def test_one_ordinal_has_one_living_lease(plane: ControlPlane) -> None:
    run = await plane.running()
    with pytest.raises(ConflictError, match="an earlier lease of this instance has not ended"):
        await another_lease(plane, run, 2)


async def test_lease_numbers_only_grow(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.FAILED)
    assert await plane.lease(run.id) == 2
    await plane.move(run.id, 0, InstanceState.STOPPED, lease=2)
    with pytest.raises(ConflictError, match="lease numbers only grow"):
        await another_lease(plane, run, 1)


async def test_the_end_of_an_instance_is_final(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.FAILED)
    with pytest.raises(ConflictError, match="an ended instance cannot change"):
        await execute(plane, "UPDATE instances SET state = 'running'")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE revisions SET definition = jsonb_set(definition, '{sink_topic}', '\"forged\"')",
        "UPDATE revisions SET note = 'another'",
        "UPDATE command_log SET who = 'somebody else'",
    ],
)
async def test_immutable_rows_cannot_be_changed(plane: ControlPlane, statement: str) -> None:
    run = await plane.running()
    async with plane.uow() as uow:
        await uow.of(CommandStore).add(
            at=plane.now,
            by=ANNA,
            verb="start_run",
            target=f"run:{run.id}",
            why=None,
            details={},
            outcome="done",
        )
        await uow.commit()
    with pytest.raises(ConflictError, match="this row is immutable"):
        await execute(plane, statement)


async def test_a_source_file_is_what_its_sum_says(plane: ControlPlane) -> None:
    with pytest.raises(IntegrityError, match="ck_transform_sources_content"):
        await execute(
            plane,
            "INSERT INTO transform_sources VALUES (repeat('0', 64), 'def f(r): ...', 13, now(), 'eve')",
        )


async def test_a_pipeline_has_one_live_run(plane: ControlPlane) -> None:
    await plane.running()
    with pytest.raises(ConflictError, match="the pipeline has a run already"):
        await plane.run()


async def test_a_transactional_id_has_one_owner(plane: ControlPlane) -> None:
    await plane.running()
    await plane.pipeline("other")
    with pytest.raises(ConflictError, match="belongs to another pipeline"):
        await execute(
            plane,
            "INSERT INTO transactional_ids SELECT 'a-kafka-cluster', 'fl.t.flights.0.0', id, 0, 0 FROM pipelines"
            " WHERE name = 'other'",
        )


async def test_ownership_intervals_of_a_partition_never_overlap(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0)]))
    with pytest.raises(ConflictError, match="another task owns this partition at the same time"):
        await execute(
            plane,
            """
            INSERT INTO partition_ownerships (kafka_cluster_id, group_id, topic, partition, pipeline_id, owner_run_id,
                owner_ordinal, owner_lease, owner_task, owner_attempt, owner_host, during)
            SELECT kafka_cluster_id, group_id, topic, partition, pipeline_id, owner_run_id, 1, 1, 0, 0, 'w2',
                tstzrange(lower(during) - interval '1 s', lower(during) + interval '1 s') FROM partition_ownerships
            """,
        )


async def test_a_current_revision_exists(plane: ControlPlane) -> None:
    await plane.pipeline()
    with pytest.raises(IntegrityError, match="fk_pipelines_current_revision"):
        await execute(plane, "UPDATE pipelines SET current_revision = 7")


async def test_a_cluster_that_a_pipeline_names_stays(plane: ControlPlane) -> None:
    await plane.pipeline()
    async with plane.uow() as uow:
        with pytest.raises(ConflictError, match="a pipeline uses the cluster"):
            await uow.of(ClusterStore).remove("test")


@pytest.mark.parametrize("name", ["\x00", "\ud800"])
async def test_text_that_postgres_cannot_hold_is_the_senders_mistake(plane: ControlPlane, name: str) -> None:
    async with plane.uow() as uow:
        with pytest.raises(InvalidError, match="a value cannot be stored"):
            await uow.of(PipelineStore).find(name)


async def test_a_statement_that_takes_too_long_ends_by_itself(plane: ControlPlane) -> None:
    uow = plane.uow()
    async with uow:
        await uow.connection.execute(sa.text("SET LOCAL statement_timeout = '50ms'"))
        with pytest.raises(UnavailableError, match="statement timeout"):
            await uow.connection.execute(sa.text("SELECT pg_sleep(5)"))


async def test_an_id_is_not_archived_without_a_time(plane: ControlPlane) -> None:
    await plane.running()
    with pytest.raises(IntegrityError, match="ck_transactional_ids_archived"):
        await execute(plane, "UPDATE transactional_ids SET archived_by = gen_random_uuid()")
