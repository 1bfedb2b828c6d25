"""The schema matches the tables, goes up and down, and is upgraded once by any number of servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.edges.db import migrations
from app.edges.main.tables import metadata
from app.kit.db.errors import BROKEN_RULES
from app.kit.errors import ConflictError, UnavailableError
from tests.conftest import MakeDatabase

CONSTRAINTS = sa.text(
    """
    SELECT conrelid::regclass::text AS "table", conname, contype::text, pg_get_constraintdef(oid) AS definition
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
    """
)
INDEXES = sa.text("SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
COLUMNS = sa.text(
    "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
)
LEFT_OVER = sa.text(
    """
    SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S', 'v')
    UNION ALL
    SELECT proname FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
    WHERE pronamespace = 'public'::regnamespace AND lanname = 'plpgsql'
    """
)


@pytest.fixture
async def empty(make_database: MakeDatabase) -> AsyncGenerator[AsyncEngine]:
    engine = create_async_engine(make_database())
    yield engine
    await engine.dispose()


@pytest.fixture
async def migrated(make_database: MakeDatabase, migrated_url: str) -> AsyncGenerator[AsyncEngine]:
    engine = create_async_engine(make_database(template=migrated_url))
    yield engine
    await engine.dispose()


def url_of(engine: AsyncEngine) -> str:
    return engine.url.render_as_string(hide_password=False)


async def catalog(engine: AsyncEngine) -> set[tuple[Any, ...]]:
    async with engine.connect() as connection:
        constraints = (await connection.execute(CONSTRAINTS)).all()
        indexes = (await connection.execute(INDEXES)).all()
    rows = {tuple(row) for row in (*constraints, *indexes)}
    return {row for row in rows if "alembic_version" not in row[0]}


async def columns(engine: AsyncEngine) -> set[tuple[str, str, str]]:
    async with engine.connect() as connection:
        return {(row.table_name, row.column_name, row.data_type) for row in await connection.execute(COLUMNS)}


async def test_migrations_and_tables_say_the_same(migrated: AsyncEngine) -> None:
    async with migrated.connect() as connection:
        differences: list[Any] = await connection.run_sync(
            lambda sync: list(
                compare_metadata(
                    MigrationContext.configure(sync, opts={"compare_type": True, "compare_server_default": True}),
                    metadata,
                )
            )
        )
    assert differences == []


async def test_every_check_exclusion_and_partial_index_is_the_same_too(
    migrated: AsyncEngine, empty: AsyncEngine
) -> None:
    """Alembic's comparison does not look at these."""
    async with empty.begin() as connection:
        await connection.execute(sa.text("CREATE EXTENSION btree_gist"))
        await connection.run_sync(metadata.create_all)
    assert await catalog(migrated) == await catalog(empty)


async def test_up_and_down_leave_nothing_behind(empty: AsyncEngine) -> None:
    url = url_of(empty)
    newest = (await migrations.upgrade(url)).newest
    assert (await migrations.current(url)).current == newest
    assert (await migrations.downgrade(url, to="base")).current is None
    async with empty.connect() as connection:
        assert (await connection.execute(LEFT_OVER)).scalars().all() == ["alembic_version"]
    assert (await migrations.upgrade(url)).current == newest


@pytest.mark.parametrize("edited_meanwhile", ["", "ALTER TABLE instances DROP COLUMN web_ui_url"])
async def test_a_database_of_before_is_brought_to_what_the_tables_say(
    empty: AsyncEngine, migrated: AsyncEngine, edited_meanwhile: str
) -> None:
    """With and without the address of a Spark UI in the first migration of the database."""
    await migrations.upgrade(url_of(empty), to="0002")
    if edited_meanwhile:
        async with empty.begin() as connection:
            await connection.execute(sa.text(edited_meanwhile))
    await migrations.upgrade(url_of(empty))
    assert await columns(empty) == await columns(migrated)


async def test_servers_that_start_at_once_migrate_once(empty: AsyncEngine) -> None:
    versions = await asyncio.gather(*(migrations.upgrade(url_of(empty)) for _ in range(3)))
    assert all(version.current == version.newest for version in versions)


async def test_a_schema_of_a_newer_release_is_left_alone(migrated: AsyncEngine) -> None:
    async with migrated.begin() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConflictError, match="schema version 9999, unknown to this release of Fenceline"):
        await migrations.upgrade(url_of(migrated))


async def test_a_database_that_is_away_is_named(make_database: MakeDatabase) -> None:
    url = sa.make_url(make_database()).set(port=1).render_as_string(hide_password=False)
    with pytest.raises(UnavailableError, match=r"Postgres at 127\.0\.0\.1:1 does not answer.*tried for"):
        await migrations.upgrade(url)


async def test_every_rule_that_has_a_sentence_is_in_the_schema(migrated: AsyncEngine) -> None:
    async with migrated.connect() as connection:
        names = set((await connection.execute(sa.text("SELECT conname FROM pg_constraint"))).scalars())
        names |= set((await connection.execute(sa.text("SELECT indexname FROM pg_indexes"))).scalars())
        sources = " ".join((await connection.execute(sa.text("SELECT prosrc FROM pg_proc"))).scalars())
    names |= set(re.findall(r"CONSTRAINT = '(\w+)'", sources))
    assert BROKEN_RULES.keys() <= names
