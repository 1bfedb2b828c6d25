"""The database of a command that works on it without the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from app.edges.db import migrations
from app.edges.db.database import Database
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.main.errors import StartError
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.settings import Settings
from app.kit.state_files import StateFileError, find_server, prepare_folder

T = TypeVar("T")
SchemaAction = Literal["upgrade", "downgrade", "current"]


@dataclass(frozen=True, kw_only=True)
class SchemaState:
    current: str | None
    newest: str


def on_database(settings: Settings, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
    """Do `work` in one unit of work on an up-to-date schema, and commit. Raises FencelineError and StartError."""

    async def do() -> T:
        async with _own_database(settings) as url:
            await migrations.upgrade(url)
            database = Database(url)
            try:
                async with database.unit_of_work() as uow:
                    result = await work(uow)
                    await uow.commit()
                    return result
            finally:
                await database.close()

    return _run(do())


def migrate(settings: Settings, action: SchemaAction, revision: str) -> SchemaState:
    """Migrate the schema, or only check it. Raises FencelineError and StartError."""

    async def do() -> SchemaState:
        async with _own_database(settings) as url:
            match action:
                case "upgrade":
                    found = await migrations.upgrade(url, to=revision)
                case "downgrade":
                    found = await migrations.downgrade(url, to=revision)
                case "current":
                    found = await migrations.current(url)
            return SchemaState(current=found.current, newest=found.newest)

    return _run(do())


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except (StateFileError, EmbeddedError) as error:
        raise StartError(str(error)) from error


@asynccontextmanager
async def _own_database(settings: Settings) -> AsyncGenerator[str]:
    """Return the database's URL: as set, else of the local running server, else of an embedded one for the command."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    running = find_server(settings.server_file)
    if running is not None:
        yield running.database_url
        return
    prepare_folder(settings.state_dir)
    postgres = await asyncio.to_thread(start_postgres, settings)
    try:
        yield postgres.url
    finally:
        await asyncio.to_thread(postgres.stop)


def start_postgres(settings: Settings) -> EmbeddedPostgres:
    """Start the embedded Postgres of this state folder."""
    return EmbeddedPostgres.start(data_dir=settings.state_dir / "postgres")
