"""Databases of a test: fresh ones, and migrated ones that are emptied for the next test."""

from __future__ import annotations

import uuid
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from sqlalchemy import make_url

_LARGEST_GROWTH_BYTES = 16_000_000
_END_OTHER_SESSIONS: LiteralString = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SCHEMA: LiteralString = """
SELECT sum(entries), max(changed) FROM (
  SELECT count(*) AS entries, max(xmin::text::bigint) AS changed FROM pg_attribute
  UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_constraint
  UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_trigger
  UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_proc
) AS catalogs
"""
_EMPTY: LiteralString = """
DO $$
DECLARE
  name text;
  has_rows boolean;
BEGIN
  -- Neither foreign keys nor the triggers that keep rows as they are have a say in this.
  SET LOCAL session_replication_role = replica;
  FOR name IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || name || ')' INTO has_rows;
    IF has_rows THEN EXECUTE 'DELETE FROM ' || name; END IF;
  END LOOP;
  PERFORM setval(quote_ident(sequencename)::regclass, start_value, false)
  FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL;
  PERFORM pg_stat_reset();
END $$
"""


class MigratedDatabases:
    """Databases with today's schema and the rows of a new installation. A returned one is emptied for the next test.

    That takes 20 ms; a copy that is dropped afterwards takes 100 ms and more.
    """

    def __init__(self, server_url: str, template_url: str) -> None:
        self._server_url = server_url
        self._template_url = template_url
        self._free: list[str] = []
        with _connect(template_url) as connection:
            self._schema = connection.execute(_SCHEMA).fetchone()
            self._size_bytes = _size_bytes(connection)
            self._rows = _rows_of(connection)

    def take(self) -> str:
        """The URL of a database that no other test has."""
        return self._free.pop() if self._free else create_database(self._server_url, template=self._template_url)

    def give_back(self, url: str) -> None:
        """End the sessions that the database still has, and empty it; drop it if its schema changed or it grew."""
        with _connect(url) as connection:
            connection.execute(_END_OTHER_SESSIONS)
            is_reusable = (
                connection.execute(_SCHEMA).fetchone() == self._schema
                and _size_bytes(connection) < self._size_bytes + _LARGEST_GROWTH_BYTES
            )
            if is_reusable:
                connection.execute(_EMPTY)
                for table, rows in self._rows.items():
                    values = sql.SQL(", ").join([sql.Placeholder()] * len(rows[0]))
                    statement = sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(table), values)
                    connection.cursor().executemany(statement, rows)
        if is_reusable:
            self._free.append(url)
        else:
            drop_database(self._server_url, url)

    def drop(self) -> None:
        """Drop every database that is not taken."""
        while self._free:
            drop_database(self._server_url, self._free.pop())


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
    """End every session of the database at `url`; return their number. Their locks are free then."""
    with _connect(server_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (make_url(url).database,)
        )
        return len(ended.fetchall())


def _execute(server_url: str, statement: sql.Composed) -> None:
    with _connect(server_url, autocommit=True) as connection:
        connection.execute(statement)


def _connect(url: str, *, autocommit: bool = False) -> psycopg.Connection:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=autocommit)


def _size_bytes(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _rows_of(connection: psycopg.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table that has some."""
    names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    found = {
        str(name): connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall()
        for (name,) in names
    }
    return {name: rows for name, rows in found.items() if rows}
