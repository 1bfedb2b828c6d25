"""Runs migrations on the connection of app/edges/db/migrations.py; for alembic itself, on FENCELINE_DATABASE_URL."""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

from app.edges.db.database import database_url
from app.edges.main.tables import metadata


def migrate(connection: sa.Connection) -> None:
    """All steps in the transaction of `connection`: half a migration is none."""
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if isinstance(given, sa.Connection):
    migrate(given)
else:
    with sa.create_engine(database_url(os.environ["FENCELINE_DATABASE_URL"])).begin() as own:
        migrate(own)
