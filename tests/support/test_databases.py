"""A database that comes back is as new for the next test, or is not given to it."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy import make_url

from tests.support.databases import MigratedDatabases


@pytest.fixture
def databases(postgres_server_url: str, migrated_url: str) -> MigratedDatabases:
    return MigratedDatabases(postgres_server_url, migrated_url)


def opened(url: str) -> psycopg.Connection:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def test_returned_database_has_no_rows_of_the_test_before_and_no_session(databases: MigratedDatabases) -> None:
    url = databases.take()
    with opened(url) as connection:
        before = connection.execute("SELECT * FROM database_identity").fetchall()
        connection.execute("SELECT nextval('command_log_id_seq')")
        connection.execute("DELETE FROM database_identity")
    left_open = opened(url)
    databases.give_back(url)
    with pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    assert databases.take() == url
    with opened(url) as connection:
        assert connection.execute("SELECT * FROM database_identity").fetchall() == before
        assert connection.execute("SELECT nextval('command_log_id_seq')").fetchone() == (1,)
    databases.give_back(url)
    databases.drop()


def test_database_with_another_schema_is_not_given_to_the_next_test(databases: MigratedDatabases) -> None:
    url = databases.take()
    with opened(url) as connection:
        connection.execute("ALTER TABLE fencing_events DROP CONSTRAINT ck_fencing_events_cause")
    databases.give_back(url)
    with pytest.raises(psycopg.OperationalError):
        opened(url)
