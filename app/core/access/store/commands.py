"""The command log: rows are added and read, never changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.core.access.command import Command, CommandFilter
from app.core.access.tables.commands import command_log
from app.kit.access import Principal, Role, Verb
from app.kit.db.store import DatabaseStore
from app.kit.errors import InvalidError
from app.kit.page import Page, decode_cursor, encode_cursor


class CommandStore(DatabaseStore):
    async def add(
        self,
        *,
        at: datetime,
        by: Principal,
        verb: str,
        target: str,
        why: str | None,
        details: dict[str, Any],
        outcome: str,
    ) -> Command:
        statement = sa.insert(command_log).values(
            at=at,
            who=by.name,
            role=by.role,
            verb=verb,
            target=target,
            why=why,
            details=details,
            outcome=outcome,
        )
        return _command((await self._db.execute(statement.returning(command_log))).one())

    async def since(self, moment: datetime, *, targets: Collection[str], verbs: Collection[str]) -> Sequence[Command]:
        """Return all of these targets and verbs, oldest first."""
        wanted = (command_log.c.target.in_(targets), command_log.c.verb.in_(verbs), command_log.c.at >= moment)
        rows = await self._db.rows(sa.select(command_log).where(*wanted).order_by(command_log.c.id))
        return [_command(row) for row in rows]

    async def list(self, wanted: CommandFilter, *, after: str | None, limit: int) -> Page[Command]:
        """List them newest first."""
        statement = sa.select(command_log).where(*_clauses(wanted)).order_by(command_log.c.id.desc()).limit(limit + 1)
        if after is not None:
            (before,) = decode_cursor(after, keys=1)
            if not before.isdecimal():
                raise InvalidError(
                    "this cursor is not from Fenceline: take it from next_cursor unchanged", field="after"
                )
            statement = statement.where(command_log.c.id < int(before))
        rows = await self._db.rows(statement)
        items = tuple(_command(row) for row in rows[:limit])
        return Page(items=items, next_cursor=encode_cursor(str(items[-1].id)) if len(rows) > limit else None)


def _clauses(wanted: CommandFilter) -> Iterator[sa.ColumnElement[bool]]:
    row = command_log.c
    if wanted.who is not None:
        yield row.who == wanted.who
    if wanted.verb is not None:
        yield row.verb == wanted.verb
    if wanted.target is not None:
        is_one = ":" in wanted.target
        yield row.target == wanted.target if is_one else row.target.startswith(f"{wanted.target}:", autoescape=True)
    if wanted.outcome is not None:
        yield row.outcome.icontains(wanted.outcome, autoescape=True)
    if wanted.since is not None:
        yield row.at >= wanted.since
    if wanted.until is not None:
        yield row.at < wanted.until


def _command(row: sa.Row[Any]) -> Command:
    return Command(
        id=row.id,
        at=row.at,
        who=row.who,
        role=Role(row.role),
        verb=Verb(row.verb),
        target=row.target,
        why=row.why,
        details=row.details,
        outcome=row.outcome,
    )
