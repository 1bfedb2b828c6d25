"""The common parts of all tables: names of constraints, and the few kinds of columns."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Errors are distinguished by the constraint's name (app/kit/db/errors.py), so every constraint has an own one."""

JSON = postgresql.JSONB(none_as_null=True)
UUID = sa.Uuid(as_uuid=False)


def text(name: str, *, nullable: bool = False, primary_key: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=nullable, primary_key=primary_key)


def moment(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def integer(
    name: str, *, nullable: bool = False, primary_key: bool = False, server_default: str | None = None
) -> sa.Column[Any]:
    return sa.Column(
        name,
        sa.Integer,
        nullable=nullable,
        primary_key=primary_key,
        autoincrement=False,
        server_default=server_default,
    )


def json(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, JSON, nullable=nullable)


def generated_uuid(name: str) -> sa.Column[Any]:
    """An id made by Postgres, so that no caller needs a random source."""
    return sa.Column(name, UUID, primary_key=True, server_default=sa.text("gen_random_uuid()"))


def quoted(words: type[StrEnum] | frozenset[Any]) -> str:
    """The words as an SQL list, in the order of their spelling."""
    return ", ".join(f"'{word}'" for word in sorted(str(word) for word in words))


def one_of(column: str, words: type[StrEnum]) -> sa.CheckConstraint:
    """Restrict the column to the values of the enum."""
    return sa.CheckConstraint(f"{column} IN ({quoted(words)})", name=column)
