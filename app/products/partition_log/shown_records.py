"""The command log's entries about requests for keys or values of records."""

from __future__ import annotations

from datetime import datetime

from app.core.access.service import command_log
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.products.partition_log.service import PartitionLog


async def note_look_at_records(
    uow: UnitOfWork, found: PartitionLog, *, cluster: str, keys: bool, values: bool, by: Principal, now: datetime
) -> None:
    """Record in the command log that a user has seen keys or values."""
    what = " and ".join(name for name, is_shown in (("keys", keys), ("values", values)) if is_shown)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.READ_RECORDS,
        target=f"cluster:{cluster}",
        why=None,
        now=now,
        outcome=f"saw {what} of {found.topic}-{found.partition}, offsets {found.start} to {found.next_offset - 1}",
    )
