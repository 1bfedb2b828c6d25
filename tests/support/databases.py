"""Databases of a test: fresh, with a name nobody else has."""

import uuid

import psycopg
from psycopg import sql
from sqlalchemy import make_url


def create_database(server_url: str, *, template: str | None = None, name: str | None = None) -> str:
    """Create an empty database, or a copy of `template`, on the server and return its SQLAlchemy URL.

    name: a fresh one by default.
    """
    name = name or f"fenceline_test_{uuid.uuid4().hex[:12]}"
    source = sql.SQL("")
    if template is not None:
        source = sql.SQL(" TEMPLATE {}").format(sql.Identifier(make_url(template).database or ""))
    _execute(server_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)) + source)
    url = make_url(server_url).set(drivername="postgresql+psycopg", database=name)
    return url.render_as_string(hide_password=False)


def drop_database(server_url: str, url: str) -> None:
    """Drop the database that `create_database` made, ending the sessions it still has."""
    name = make_url(url).database or ""
    _execute(server_url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def end_sessions(server_url: str, url: str) -> int:
    """End every session of the database at `url`; how many there were. What they had locked is free."""
    plain = make_url(server_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (make_url(url).database,)
        )
        return len(ended.fetchall())


def _execute(server_url: str, statement: sql.Composed) -> None:
    plain = make_url(server_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(statement)
