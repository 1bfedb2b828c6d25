"""Migrate a database's schema: at every start, and by `fenceline db`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

import app
from app.edges.db.database import CONNECT_TIMEOUT_S, database_url
from app.edges.db.locks import SCHEMA_LOCK
from app.kit.db.connection import Connection
from app.kit.errors import ConflictError

FOLDER = Path(app.__file__).parent.parent / "migrations"
_IN_TURN = sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))").bindparams(name=SCHEMA_LOCK)


_Act = Callable[[Config], None]


class SchemaVersion(NamedTuple):
    """`current` None: an empty database. `newest`: the version of this release."""

    current: str | None
    newest: str


async def upgrade(url: str, *, to: str = "head") -> SchemaVersion:
    """Migrate up in one transaction; servers that start at once take turns, and the second has nothing to do.

    Raises UnavailableError when Postgres does not answer, ConflictError when the schema is newer than this release.
    """
    return await _migrate(url, lambda config: command.upgrade(config, to))


async def downgrade(url: str, *, to: str) -> SchemaVersion:
    """Migrate down in one transaction; `base` leaves an empty schema. Data of removed columns and tables is lost."""
    return await _migrate(url, lambda config: command.downgrade(config, to))


async def current(url: str) -> SchemaVersion:
    """Return the schema's version, and the one that this release requires; changes nothing."""
    return await _migrate(url, None)


def configuration() -> Config:
    """Alembic's settings, as `[tool.alembic]` of pyproject.toml has them for its own command line."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    return config


async def _migrate(url: str, act: _Act | None) -> SchemaVersion:
    engine = create_async_engine(
        database_url(url), poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT_S}
    )
    config = configuration()
    script = ScriptDirectory.from_config(config)
    newest = script.get_current_head() or ""
    known = {revision.revision for revision in script.walk_revisions()}
    try:
        with Connection(engine).translating():
            async with engine.begin() as connection:
                if act is not None:
                    await connection.execute(_IN_TURN)
                before = await connection.run_sync(_version)
                if before is not None and before not in known:
                    raise ConflictError(
                        f"the database has schema version {before}, unknown to this release of Fenceline. "
                        "Install the newer release, or use another database"
                    )
                if act is not None:
                    await connection.run_sync(_act, config, act)
                return SchemaVersion(current=await connection.run_sync(_version), newest=newest)
    finally:
        await engine.dispose()


def _version(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _act(connection: sa.Connection, config: Config, act: _Act) -> None:
    config.attributes["connection"] = connection
    act(config)
