"""A database with outages, and one with a wrong schema."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import sqlalchemy as sa

from app.core.access.store.identity import IdentityStore
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.edges.db import migrations
from app.edges.db.database import Database, database_url
from app.edges.embedded.postgres import EmbeddedPostgres
from app.kit.errors import ConflictError, UnavailableError
from tests.conftest import MakeDatabase
from tests.support.control_plane import ControlPlane
from tests.support.waiting import wait_for_async


async def epoch_of(database: Database) -> str:
    async with database.unit_of_work() as uow:
        epoch = await uow.of(IdentityStore).database_epoch()
        await uow.commit()
    return epoch


async def answers(database: Database) -> bool:
    try:
        await database.ping()
    except UnavailableError:
        return False
    return True


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h:1/d",
        "postgres://u:p@h:1/d",
        "postgresql+psycopg://u:p@h:1/d",
        "postgresql+asyncpg://u:p@h:1/d",
    ],
)
def test_every_spelling_of_a_postgres_url_means_our_driver(url: str) -> None:
    assert database_url(url) == "postgresql+psycopg://u:p@h:1/d"


async def test_uncommitted_changes_are_rolled_back(database: Database) -> None:
    plane = ControlPlane(database)
    async with plane.uow() as uow:
        assert await uow.of(ClusterStore).list_all() == []
    with pytest.raises(ConflictError):  # noqa: PT012 - the first statement works, the second ends the unit
        async with plane.uow() as uow:
            await plane.cluster()
            cluster = (await uow.of(ClusterStore).list_all())[0]
            await uow.of(ClusterStore).add(cluster)
    async with plane.uow() as uow:
        assert [cluster.name for cluster in await uow.of(ClusterStore).list_all()] == ["test"]


async def test_a_unit_of_work_makes_each_store_once_and_another_unit_makes_its_own(database: Database) -> None:
    async with database.unit_of_work() as one, database.unit_of_work() as other:
        assert one.of(ClusterStore) is one.of(ClusterStore)
        assert isinstance(one.of(PipelineStore), PipelineStore)
        assert one.of(ClusterStore) is not other.of(ClusterStore)


async def test_a_database_is_the_same_until_it_is_another(database: Database, make_database: MakeDatabase) -> None:
    first = await epoch_of(database)
    assert await epoch_of(database) == first
    url = database.url
    await database.close()
    copy = Database(make_database(template=url))
    try:
        assert await epoch_of(copy) != first, "a copy is not the database that gave out the leases"
    finally:
        await copy.close()


async def test_a_table_that_was_loaded_again_is_another_database(database: Database) -> None:
    first = await epoch_of(database)
    async with database.engine.begin() as connection:
        await connection.execute(sa.text("CREATE TABLE dump AS SELECT * FROM database_identity"))
        await connection.execute(sa.text("ALTER TABLE database_identity RENAME TO old"))
        await connection.execute(sa.text("ALTER TABLE dump RENAME TO database_identity"))
    assert await epoch_of(database) != first


@pytest.mark.slow
async def test_postgres_goes_and_comes_back_and_the_sentence_says_which_and_how_long() -> None:
    with EmbeddedPostgres.start() as postgres:
        await migrations.upgrade(postgres.url)
        database = Database(postgres.url)
        plane = ControlPlane(database)
        try:
            await plane.pipeline()
            before = await epoch_of(database)
            postgres.kill()
            begun = time.monotonic()
            with pytest.raises(UnavailableError, match=rf"Postgres at {database.address} does not answer.*tried for"):
                await database.ping()
            assert time.monotonic() - begun < 8
            postgres.restart()

            await wait_for_async(lambda: answers(database), 10.0, "the pool finds the new server")
            assert await epoch_of(database) == before, "a crash is not a restore"
            async with plane.uow() as uow:
                assert (await uow.of(PipelineStore).get("flights")).current_revision == 1
        finally:
            await database.close()


@pytest.mark.slow
async def test_idle_connections_that_a_restart_has_broken_are_replaced_before_their_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedPostgres.start() as postgres:
        database = Database(postgres.url)
        try:
            for idle_s, expected in ((3600.0, [False, True, True]), (0.0, [True, True, True])):
                monkeypatch.setattr("app.edges.db.database._IDLE_S", idle_s)
                await asyncio.gather(*(database.ping() for _ in range(5)))
                postgres.restart()
                found = [await answers(database) for _ in expected]
                # Without the test a broken connection costs its first user an error, and the pool replaces all.
                assert found == expected
        finally:
            await database.close()


async def test_a_connection_in_use_is_not_tested_each_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    tests: list[object] = []
    dialect = database.engine.sync_engine.dialect
    do_ping = dialect.do_ping

    def counted(connection: Any) -> bool:
        tests.append(connection)
        return do_ping(connection)

    monkeypatch.setattr(dialect, "do_ping", counted)
    for _ in range(20):
        await database.ping()
    assert len(tests) <= 1


async def test_a_database_without_the_schema_says_what_it_lacks(make_database: MakeDatabase) -> None:
    database = Database(make_database())
    try:
        async with database.unit_of_work() as uow:
            with pytest.raises(
                UnavailableError,
                match=r"the schema of the database .* is older than this release.*fenceline db upgrade",
            ):
                await uow.of(ClusterStore).list_all()
    finally:
        await database.close()


@pytest.mark.slow
async def test_a_request_to_a_frozen_postgres_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kit.db.connection.ANSWER_WITHIN_S", 1.0)
    with EmbeddedPostgres.start() as postgres:
        database = Database(postgres.url)
        try:
            await database.ping()
            postgres.pause()
            try:
                begun = time.monotonic()
                with pytest.raises(UnavailableError, match="the connection is open, but no answer comes"):
                    await database.ping()
                assert time.monotonic() - begun < 15, "1 s of ours and 10 s of psycopg's"
            finally:
                postgres.resume()

            await wait_for_async(lambda: answers(database), 15.0, "the pool works again after the thaw")
        finally:
            await database.close()
