"""The command log: every change by a user or a loop, with reason and time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.core.access.command import Command, CommandFilter
from app.core.access.store.commands import CommandStore
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.page import Page, checked_limit

MAX_WHY = 1000


async def record(
    uow: UnitOfWork,
    *,
    by: Principal,
    verb: Verb,
    target: str,
    why: str | None,
    now: datetime,
    outcome: str,
    details: dict[str, Any] | None = None,
) -> Command:
    """Write one row in the caller's transaction, so that no change is without its row."""
    command = await uow.of(CommandStore).add(
        at=now,
        by=by,
        verb=verb,
        target=target,
        why=why.strip()[:MAX_WHY] or None if why else None,
        details=details or {},
        outcome=outcome,
    )
    uow.notify("command", str(command.id))
    return command


async def list_commands(
    uow: UnitOfWork, wanted: CommandFilter, *, after: str | None = None, limit: int = 50
) -> Page[Command]:
    """List the wanted ones, newest first. Raises InvalidError for a wrong cursor or limit."""
    return await uow.of(CommandStore).list(wanted, after=after, limit=checked_limit(limit))
