"""The command log's entries about requests for records of a topic."""

from __future__ import annotations

from datetime import datetime

from app.core.access.service import command_log
from app.core.journals.log_look import start_text
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.words import count
from app.products.topics.service.records import RecordPage, RecordQuery

_RANGES = 10


async def note_records(
    uow: UnitOfWork, found: RecordPage, query: RecordQuery, *, cluster: str, by: Principal, now: datetime
) -> None:
    """Record that a user has seen records, with the offsets of each partition; the texts of filters may quote them."""
    read = [one for one in found.ranges if one.next > one.first]
    ranges = ", ".join(f"{found.topic}-{one.partition} offsets {one.first} to {one.next - 1}" for one in read[:_RANGES])
    more = f" and {len(read) - _RANGES} more partitions" if len(read) > _RANGES else ""
    where = f"{ranges}{more}" if read else f"{found.topic}, no offsets"
    outcome = f"saw {count(len(found.records), 'record')} of {where}{_filtered(query)}"
    await _note(uow, outcome, cluster=cluster, by=by, now=now)


async def note_download(uow: UnitOfWork, query: RecordQuery, *, cluster: str, by: Principal, now: datetime) -> None:
    """Record a download before its first line is sent."""
    where = query.topic if query.partition is None else f"{query.topic}-{query.partition}"
    start = "a cursor" if query.after is not None else start_text(query.start)
    outcome = f"downloaded at most {count(query.limit, 'record')} of {where} from {start}{_filtered(query)}"
    await _note(uow, outcome, cluster=cluster, by=by, now=now)


def _filtered(query: RecordQuery) -> str:
    return f", filtered by {' and '.join(query.wanted.parts)}" if query.wanted.parts else ""


async def _note(uow: UnitOfWork, outcome: str, *, cluster: str, by: Principal, now: datetime) -> None:
    await command_log.record(
        uow, by=by, verb=Verb.READ_RECORDS, target=f"cluster:{cluster}", why=None, now=now, outcome=outcome
    )
